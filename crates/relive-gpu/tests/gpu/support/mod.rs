//! A driver for tests: it records every call, uses host memory as device memory, and runs the kernels on the CPU,
//! compiled as C++, if there is a compiler.

#![expect(unsafe_code, reason = "it is memory and calls of C that this stands for")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it does nothing"
)]

pub(crate) mod numbers;

use std::alloc::Layout;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libloading::Library;
use relive_gpu::cuda::{
    Copy, Device, DevicePtr, Driver, Event, Function, Module, SOURCES, Shape, Stream, driver_error,
};
use relive_gpu::{ErrorKind, Result};

/// A recorded call to the driver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Allocate(u64),
    Free,
    Register { at: u64, bytes: u64 },
    Unregister(u64),
    Unmap,
    Recover,
    Copy(Vec<Copy>, Stream),
    Fill { bytes: u64 },
    Compile,
    Load,
    Launch { kernel: &'static str, shape: Shape, stream: Stream, parameter: Vec<u8> },
    Record(Event, Stream),
    Wait(Stream, Event),
    Finish(Event),
    Synchronize(Stream),
}

pub(crate) type Log = Arc<Mutex<Vec<Call>>>;

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// The registration of memory that starts at this address fails.
    Registration(u64),
    /// The shipped PTX is refused, as by an old driver.
    OldDriver,
    /// The shipped PTX is refused, and there is no compiler.
    OldDriverWithoutCompiler,
}

#[derive(Debug, Default)]
pub(crate) struct TestDriver {
    log: Log,
    fault: Fault,
    /// Without kernels, device memory consists only of addresses, which are never accessed.
    kernels: Option<&'static Library>,
    memory: Mutex<HashMap<u64, Layout>>,
    names: Mutex<Vec<&'static str>>,
    next: Mutex<u64>,
    registered: Mutex<HashSet<u64>>,
    /// While set, no event passes.
    hangs: Arc<AtomicBool>,
}

/// If this variable is set, as by `cargo xtask test`, tests fail where they cannot run the kernels.
const REQUIRED: &str = "RELIVE_REQUIRE_KERNELS";

/// Returns the kernels compiled for this CPU, or the reason why there are none.
pub(crate) fn kernels() -> std::result::Result<&'static Library, String> {
    static KERNELS: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    let kernels = KERNELS.get_or_init(compile).as_ref().map_err(Clone::clone);
    if let (Err(reason), Some(_)) = (&kernels, std::env::var_os(REQUIRED)) {
        panic!(
            "the kernels are not tested: {reason}; install a C++ compiler as `c++`, for example Debian's package \
             g++, or unset {REQUIRED}"
        );
    }
    kernels
}

fn compile() -> std::result::Result<Library, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, library) = (folder.path().join("kernels.cpp"), folder.path().join("kernels.so"));
    let text = [include_str!("emulate.h"), SOURCES, include_str!("launch.h")].concat();
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas"]);
    // A GPU faults at misaligned accesses, which this processor would not notice. Trapping needs no runtime library.
    compiler.args(["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]);
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let output =
        compiler.output().map_err(|error| format!("no C++ compiler: c++ cannot be started ({error})"))?;
    assert!(
        output.status.success(),
        "the kernels do not compile:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // SAFETY: the library's only initializer sets the handler of a signal that otherwise ends the process as well.
    unsafe { Library::new(&library) }.map_err(|error| error.to_string())
}

/// Returns a device that runs its kernels on the CPU. Without a C++ compiler, prints the reason and returns `None`.
pub(crate) fn emulated() -> Option<(Device, Log)> {
    match kernels() {
        Ok(kernels) => {
            let driver = TestDriver { kernels: Some(kernels), ..TestDriver::default() };
            let log = driver.log.clone();
            Some((Device::with_driver(Box::new(driver), None).unwrap(), log))
        }
        Err(reason) => {
            println!("the kernels are not tested: {reason}");
            None
        }
    }
}

/// Returns a device that does nothing, and whose events do not pass while the flag is set.
pub(crate) fn hanging() -> (Device, Arc<AtomicBool>, Log) {
    let driver = TestDriver::default();
    let (hangs, log) = (Arc::clone(&driver.hangs), driver.log.clone());
    (Device::with_driver(Box::new(driver), None).unwrap(), hangs, log)
}

/// Returns a device that only records calls.
pub(crate) fn recorded(fault: Fault, cache: Option<&Path>) -> (Result<Device>, Log) {
    let driver = TestDriver { fault, ..TestDriver::default() };
    let log = driver.log.clone();
    (Device::with_driver(Box::new(driver), cache), log)
}

/// Runs a kernel on the CPU.
///
/// # Safety
/// Same as [`Driver::launch`].
pub(crate) unsafe fn launch(kernels: &Library, name: &str, shape: Shape, parameter: &[u8]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap();
    // SAFETY: `launch.h` defines both functions for every kernel; the parameter is as large as the kernel's.
    unsafe {
        let size =
            kernels.get::<unsafe extern "C" fn() -> u64>(format!("size_of_{name}").as_bytes()).unwrap();
        assert_eq!(size(), parameter.len() as u64, "the parameter of {name}");
        type Run = unsafe extern "C" fn(*const u8, u32, u32);
        let run = kernels.get::<Run>(format!("emulate_{name}").as_bytes()).unwrap();
        run(parameter.as_ptr(), shape.blocks, shape.threads);
    }
}

impl TestDriver {
    fn record_call(&self, call: Call) {
        self.log.lock().unwrap().push(call);
    }

    fn number(&self) -> u64 {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        *next
    }
}

impl Driver for TestDriver {
    fn name(&self) -> String {
        "the processor".to_owned()
    }

    fn architecture(&self) -> u32 {
        90
    }

    fn multiprocessors(&self) -> u32 {
        1
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        self.record_call(Call::Allocate(bytes));
        if self.kernels.is_none() {
            return Ok(DevicePtr(self.number() << 40));
        }
        let layout = Layout::from_size_align(usize::try_from(bytes).unwrap(), 256).unwrap();
        // SAFETY: the size is not 0.
        let memory = unsafe { std::alloc::alloc(layout) };
        // SAFETY: the memory has this size. It is filled with garbage, so that nothing relies on zeros.
        unsafe { memory.write_bytes(0xa5, layout.size()) };
        self.memory.lock().unwrap().insert(memory as u64, layout);
        Ok(DevicePtr(memory as u64))
    }

    unsafe fn free(&self, memory: DevicePtr) -> Result<()> {
        self.record_call(Call::Free);
        if self.kernels.is_some() {
            let layout = self.memory.lock().unwrap().remove(&memory.0).expect("memory of this driver");
            // SAFETY: the memory was allocated with this layout.
            unsafe { std::alloc::dealloc(memory.0 as *mut u8, layout) };
        }
        Ok(())
    }

    fn allocate_host(&self, bytes: u64) -> Result<u64> {
        let layout = Layout::from_size_align(usize::try_from(bytes).unwrap(), 256).unwrap();
        // SAFETY: the size is not 0.
        let memory = unsafe { std::alloc::alloc(layout) } as u64;
        self.memory.lock().unwrap().insert(memory, layout);
        Ok(memory)
    }

    unsafe fn free_host(&self, host: u64) -> Result<()> {
        let layout = self.memory.lock().unwrap().remove(&host).expect("memory of this driver");
        // SAFETY: the memory was allocated with this layout.
        unsafe { std::alloc::dealloc(host as *mut u8, layout) };
        Ok(())
    }

    unsafe fn register(&self, host: u64, bytes: u64) -> Result<DevicePtr> {
        self.record_call(Call::Register { at: host, bytes });
        match self.fault {
            _ if !self.registered.lock().unwrap().insert(host) => {
                Err(driver_error(ErrorKind::System, "the memory is already registered"))
            }
            Fault::Registration(from) if host >= from => {
                Err(driver_error(ErrorKind::System, "the driver registers no more"))
            }
            _ => Ok(DevicePtr(host)),
        }
    }

    unsafe fn unregister(&self, host: u64) -> Result<()> {
        self.record_call(Call::Unregister(host));
        self.registered.lock().unwrap().remove(&host);
        Ok(())
    }

    fn recover(&self) -> Result<()> {
        self.record_call(Call::Recover);
        Ok(())
    }

    fn has_batches(&self, _stream: Stream) -> bool {
        true
    }

    unsafe fn copy(&self, copies: &[Copy], stream: Stream) -> Result<()> {
        self.record_call(Call::Copy(copies.to_vec(), stream));
        for Copy { to, from, bytes } in copies.iter().filter(|_| self.kernels.is_some()) {
            let bytes = usize::try_from(*bytes).unwrap();
            // SAFETY: the caller's contract.
            unsafe { std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, bytes) };
        }
        Ok(())
    }

    unsafe fn fill(&self, to: DevicePtr, byte: u8, bytes: u64, _stream: Stream) -> Result<()> {
        self.record_call(Call::Fill { bytes });
        if self.kernels.is_some() {
            // SAFETY: the caller's contract.
            unsafe { (to.0 as *mut u8).write_bytes(byte, usize::try_from(bytes).unwrap()) };
        }
        Ok(())
    }

    fn compile(&self, source: &str) -> Option<Result<String>> {
        self.record_call(Call::Compile);
        assert_eq!(source, SOURCES);
        (self.fault != Fault::OldDriverWithoutCompiler).then(|| Ok("compiled here".to_owned()))
    }

    fn load(&self, ptx: &str) -> Result<Module> {
        self.record_call(Call::Load);
        let old = matches!(self.fault, Fault::OldDriver | Fault::OldDriverWithoutCompiler);
        if old && ptx != "compiled here" {
            return Err(driver_error(ErrorKind::System, "the driver is older than the PTX"));
        }
        Ok(Module(self.number()))
    }

    fn function(&self, _module: Module, name: &'static str) -> Result<Function> {
        let mut names = self.names.lock().unwrap();
        names.push(name);
        Ok(Function(names.len() as u64 - 1))
    }

    unsafe fn launch(&self, kernel: Function, shape: Shape, stream: Stream, parameter: &[u8]) -> Result<()> {
        let name = self.names.lock().unwrap()[usize::try_from(kernel.0).unwrap()];
        self.record_call(Call::Launch { kernel: name, shape, stream, parameter: parameter.to_vec() });
        if let Some(kernels) = self.kernels {
            // SAFETY: the caller's contract.
            unsafe { launch(kernels, name, shape, parameter) };
        }
        Ok(())
    }

    fn stream(&self) -> Result<Stream> {
        Ok(Stream(self.number()))
    }

    unsafe fn end_stream(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }

    fn event(&self) -> Result<Event> {
        Ok(Event(self.number()))
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        self.record_call(Call::Record(event, stream));
        Ok(())
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        self.record_call(Call::Wait(stream, event));
        Ok(())
    }

    fn finish(&self, event: Event, _patience: Duration) -> Result<()> {
        if self.hangs.load(Ordering::SeqCst) {
            return Err(driver_error(ErrorKind::Unavailable, "the event has not passed"));
        }
        self.record_call(Call::Finish(event));
        Ok(())
    }

    unsafe fn end_event(&self, _event: Event) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self, stream: Stream, _patience: Duration) -> Result<()> {
        self.record_call(Call::Synchronize(stream));
        Ok(())
    }
}

/// Represents a mapping, and logs its drop.
pub(crate) struct Mapping(pub(crate) Log);

impl Drop for Mapping {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(Call::Unmap);
    }
}
