//! What is asked of CUDA: few calls, as a trait, so that all that is built on them is tested without a GPU.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// An address that kernels can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The address so many bytes further on.
    #[must_use]
    pub fn at(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// A queue of work: the number that CUDA calls `CUstream`, so that the current stream of another library can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// A place in a stream that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event(pub u64);

/// Loaded kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module(pub u64);

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(pub u64);

/// A copy between two addresses, of the host or of the device: with unified addressing both are numbers of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where the bytes go.
    pub to: u64,
    /// Where they are.
    pub from: u64,
    /// How many there are.
    pub bytes: u64,
}

/// How many blocks of how many threads a kernel runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// The calls of CUDA's driver that this crate makes. [`Device`](super::Device) is what is built on them.
///
/// Calls come from any thread. A failed call changes nothing, unless its error says otherwise.
#[expect(clippy::missing_errors_doc, reason = "all of them fail with what the driver says")]
pub trait Driver: Debug + Send + Sync {
    /// The device, for people.
    fn name(&self) -> String;

    /// The compute capability in one number: 90 is 9.0.
    fn architecture(&self) -> u32;

    /// Multiprocessors of the device.
    fn multiprocessors(&self) -> u32;

    /// Memory of the device, at a multiple of 256 bytes. `bytes` is not 0.
    fn allocate(&self, bytes: u64) -> Result<DevicePtr>;

    /// Gives memory back.
    ///
    /// # Safety
    /// The memory is from [`allocate`](Self::allocate), and nothing uses it any more.
    unsafe fn free(&self, memory: DevicePtr) -> Result<()>;

    /// Makes memory of the host readable by kernels, and says at which address. `bytes` is not 0.
    ///
    /// # Safety
    /// The memory is mapped, and stays so until it is [unregistered](Self::unregister).
    unsafe fn register(&self, host: u64, bytes: u64) -> Result<DevicePtr>;

    /// Ends what [`register`](Self::register) began at this address.
    ///
    /// # Safety
    /// No work that uses the memory is left.
    unsafe fn unregister(&self, host: u64) -> Result<()>;

    /// After a failed call: takes up an error that the driver has kept for a later call, so that this one is not
    /// blamed for it. Fails if the device cannot be used any more.
    fn recover(&self) -> Result<()>;

    /// Copies, one after another or at the same time, as part of the stream.
    ///
    /// # Safety
    /// The addresses are of memory that is there, and stays until the stream has come past.
    unsafe fn copy(&self, copies: &[Copy], stream: Stream) -> Result<()>;

    /// Sets bytes of the device.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn fill(&self, to: DevicePtr, byte: u8, bytes: u64, stream: Stream) -> Result<()>;

    /// Compiles CUDA C to PTX for this device; `None` where there is no compiler.
    fn compile(&self, source: &str) -> Option<Result<String>>;

    /// Loads kernels from PTX.
    fn load(&self, ptx: &str) -> Result<Module>;

    /// A kernel of a module.
    fn function(&self, module: Module, name: &'static str) -> Result<Function>;

    /// Runs a kernel, whose one parameter is these bytes.
    ///
    /// # Safety
    /// The bytes are the kernel's parameter, and its addresses are of memory that stays until the stream has come past.
    unsafe fn launch(&self, kernel: Function, shape: Shape, stream: Stream, parameter: &[u8]) -> Result<()>;

    /// A new stream, which does not wait for the default one.
    fn stream(&self) -> Result<Stream>;

    /// Ends a stream.
    ///
    /// # Safety
    /// The stream is from [`stream`](Self::stream), and not used any more.
    unsafe fn end_stream(&self, stream: Stream) -> Result<()>;

    /// A new event.
    fn event(&self) -> Result<Event>;

    /// Puts the event at the end of the stream as it is now.
    fn record(&self, event: Event, stream: Stream) -> Result<()>;

    /// Lets later work of the stream wait for the event.
    fn wait(&self, stream: Stream, event: Event) -> Result<()>;

    /// Milliseconds between two events that have come to pass.
    fn elapsed_ms(&self, from: Event, to: Event) -> Result<f32>;

    /// Ends an event.
    ///
    /// # Safety
    /// The event is from [`event`](Self::event), and not used any more.
    unsafe fn end_event(&self, event: Event) -> Result<()>;

    /// Waits until the stream has done all its work, at most for this time.
    fn synchronize(&self, stream: Stream, patience: Duration) -> Result<()>;
}

/// The error of a driver that is implemented outside this crate.
#[must_use]
pub fn driver_error(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::System, text)
}
