//! The calls to CUDA: a small trait, so that everything above it can be tested without a GPU.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// An address in the address space of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// Returns the address `bytes` bytes after this one.
    #[must_use]
    pub fn at(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// A queue of work: CUDA's `CUstream` as a number, so that the current stream of another library can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// A point in a stream that other work can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event(pub u64);

/// Loaded kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module(pub u64);

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(pub u64);

/// A copy between two addresses, of the host or of the device. With unified addressing, both share one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Destination address.
    pub to: u64,
    /// Source address.
    pub from: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The number of blocks and threads in which a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of blocks.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
}

/// The CUDA driver calls that this crate makes. [`Device`](super::Device) is built on them.
///
/// Calls come from any thread. A failed call changes nothing, unless its error states otherwise.
#[expect(clippy::missing_errors_doc, reason = "all calls fail with the driver's error")]
pub trait Driver: Debug + Send + Sync {
    /// Returns the device's name, for display.
    fn name(&self) -> String;

    /// Returns the compute capability as one number: 90 is 9.0.
    fn architecture(&self) -> u32;

    /// Returns the number of multiprocessors of the device.
    fn multiprocessors(&self) -> u32;

    /// Allocates device memory, aligned to 256 bytes. `bytes` is not 0.
    fn allocate(&self, bytes: u64) -> Result<DevicePtr>;

    /// Frees memory.
    ///
    /// # Safety
    /// The memory must come from [`allocate`](Self::allocate), and must no longer be in use.
    unsafe fn free(&self, memory: DevicePtr) -> Result<()>;

    /// Allocates page-locked host memory, which the device reads at the same address. `bytes` is not 0.
    fn allocate_host(&self, bytes: u64) -> Result<u64>;

    /// Frees page-locked host memory.
    ///
    /// # Safety
    /// The memory must come from [`allocate_host`](Self::allocate_host), and must no longer be in use.
    unsafe fn free_host(&self, host: u64) -> Result<()>;

    /// Makes host memory readable by kernels, and returns its device address. `bytes` is not 0.
    ///
    /// # Safety
    /// The memory must be mapped, and stay mapped until it is [unregistered](Self::unregister).
    unsafe fn register(&self, host: u64, bytes: u64) -> Result<DevicePtr>;

    /// Ends a [registration](Self::register) at the given address.
    ///
    /// # Safety
    /// No remaining work may use the memory.
    unsafe fn unregister(&self, host: u64) -> Result<()>;

    /// Clears an error that the driver has kept, so that a later call is not blamed for it. Called after each failed
    /// call. Fails if the device is no longer usable.
    fn recover(&self) -> Result<()>;

    /// Returns whether one call can submit several copies in this stream. Without such calls, copy engines are slow.
    fn has_batches(&self, stream: Stream) -> bool;

    /// Performs the copies, in any order or concurrently, as part of the stream.
    ///
    /// # Safety
    /// The addresses must refer to memory that stays valid until the stream has passed this point.
    unsafe fn copy(&self, copies: &[Copy], stream: Stream) -> Result<()>;

    /// Fills device memory with a byte.
    ///
    /// # Safety
    /// Same as [`copy`](Self::copy).
    unsafe fn fill(&self, to: DevicePtr, byte: u8, bytes: u64, stream: Stream) -> Result<()>;

    /// Compiles CUDA C to PTX for this device. Returns `None` if no compiler is available.
    fn compile(&self, source: &str) -> Option<Result<String>>;

    /// Loads kernels from PTX.
    fn load(&self, ptx: &str) -> Result<Module>;

    /// Returns a kernel of a module.
    fn function(&self, module: Module, name: &'static str) -> Result<Function>;

    /// Runs a kernel with these bytes as its only parameter.
    ///
    /// # Safety
    /// The bytes must match the kernel's parameter, and its addresses must refer to memory that stays valid until the
    /// stream has passed this point.
    unsafe fn launch(&self, kernel: Function, shape: Shape, stream: Stream, parameter: &[u8]) -> Result<()>;

    /// Creates a stream that does not wait for the default one.
    fn stream(&self) -> Result<Stream>;

    /// Destroys a stream.
    ///
    /// # Safety
    /// The stream must come from [`stream`](Self::stream), and must no longer be in use.
    unsafe fn end_stream(&self, stream: Stream) -> Result<()>;

    /// Creates an event.
    fn event(&self) -> Result<Event>;

    /// Records the event at the current end of the stream.
    fn record(&self, event: Event, stream: Stream) -> Result<()>;

    /// Makes later work of the stream wait for the event.
    fn wait(&self, stream: Stream, event: Event) -> Result<()>;

    /// Waits until the stream has passed the event. An event that was never recorded has passed. Fails with
    /// [`ErrorKind::Unavailable`] if this takes longer than `patience`.
    fn finish(&self, event: Event, patience: Duration) -> Result<()>;

    /// Destroys an event.
    ///
    /// # Safety
    /// The event must come from [`event`](Self::event), and must no longer be in use.
    unsafe fn end_event(&self, event: Event) -> Result<()>;

    /// Waits until the stream has done all its work, for at most `patience`.
    fn synchronize(&self, stream: Stream, patience: Duration) -> Result<()>;
}

/// Returns the error of a driver that is implemented outside this crate: [`ErrorKind::Unavailable`] if memory is
/// insufficient or work has not been completed in time, and [`ErrorKind::System`] otherwise.
#[must_use]
pub fn driver_error(kind: ErrorKind, text: impl Into<String>) -> Error {
    Error::new(kind, text)
}
