//! CUDA's driver, through the bindings of cudarc. Bindings are called only once their library is known to exist,
//! because they panic otherwise.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use cudarc::driver::sys::CUresult;

use super::driver::{Copy, DevicePtr, Driver, Event, Function, Module, Shape, Stream};
use crate::{Error, ErrorKind, Result};

/// Flags of a registration: portable to all contexts, and mapped for kernels.
const REGISTER_FLAGS: u32 = 0x01 | 0x02;

/// A stream that does not wait for the default one.
const NON_BLOCKING: u32 = 0x01;

/// First version of the driver that supports batched copies.
const BATCHES_SINCE: i32 = 13_000;

/// The streams with numbers up to this one are the default streams of the process and of the thread.
const LAST_DEFAULT_STREAM: u64 = 2;

/// Flags of page-locked memory: portable to all contexts, and mapped for kernels.
const HOST_FLAGS: u32 = 0x01 | 0x02;

/// An event that does not measure time, which makes it cheaper.
const WITHOUT_TIME: u32 = 0x02;

/// How long a wait polls before it sleeps between polls.
const SPIN: Duration = Duration::from_micros(200);

fn check(what: &str, code: CUresult) -> Result<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text: *const c_char = ptr::null();
    // SAFETY: the driver writes a pointer to a static text, or leaves null.
    let known =
        unsafe { sys::cuGetErrorString(code, &raw mut text) } == CUresult::CUDA_SUCCESS && !text.is_null();
    // SAFETY: see above.
    let text = if known { unsafe { CStr::from_ptr(text) }.to_string_lossy() } else { "unknown error".into() };
    let kind = match code {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::Unavailable,
        _ => ErrorKind::System,
    };
    Err(Error::new(kind, format!("the GPU's driver cannot {what}: {text} ({code:?})")))
}

/// Returns the driver's version, once it is loaded and initialized.
fn initialized() -> Result<i32> {
    static VERSION: OnceLock<std::result::Result<i32, String>> = OnceLock::new();
    let initialize = || {
        // SAFETY: the call only opens and closes the library.
        if !unsafe { sys::is_culib_present() } {
            return Err("no NVIDIA driver is installed (libcuda was not found)".to_owned());
        }
        let mut version: c_int = 0;
        // SAFETY: the library exists; the call has no preconditions.
        check("begin", unsafe { sys::cuInit(0) }).map_err(|error| error.to_string())?;
        // SAFETY: the pointer is to our own number.
        check("say its version", unsafe { sys::cuDriverGetVersion(&raw mut version) })
            .map_err(|error| error.to_string())?;
        Ok(version)
    };
    VERSION
        .get_or_init(initialize)
        .clone()
        .map_err(|text| Error::new(ErrorKind::Unavailable, format!("no GPU can be used: {text}")))
}

pub(crate) fn available() -> Result<()> {
    initialized()?;
    let mut count: c_int = 0;
    // SAFETY: the driver is initialized, and the pointer is to our own number.
    check("count devices", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    if count == 0 {
        return Err(Error::new(ErrorKind::Unavailable, "no GPU can be used: the driver reports no device"));
    }
    Ok(())
}

/// One GPU, in the primary context that all libraries of the process share.
#[derive(Debug)]
pub(crate) struct RealDriver {
    device: sys::CUdevice,
    context: usize,
    version: i32,
    name: String,
    architecture: u32,
    multiprocessors: u32,
}

impl RealDriver {
    pub(crate) fn open(number: u32) -> Result<Self> {
        available()?;
        let version = initialized()?;
        let ordinal = c_int::try_from(number).unwrap_or(c_int::MAX);
        let mut device = 0;
        // SAFETY: the driver is initialized; here and below, pointers are to our own values.
        check(&format!("open device {number}"), unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: see above.
            check("describe the device", unsafe {
                sys::cuDeviceGetAttribute(&raw mut value, which, device)
            })?;
            Ok(value.cast_unsigned())
        };
        use sys::CUdevice_attribute as Attribute;
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let mut name = [0 as c_char; 128];
        // SAFETY: the driver writes at most 128 bytes of zero-terminated text.
        check("name the device", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 128, device) })?;
        // SAFETY: see above.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let mut context = ptr::null_mut();
        // SAFETY: released when this value is dropped.
        check("create a context", unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) })?;
        let (context, architecture) = (context as usize, major * 10 + minor);
        Ok(Self { device, context, version, name, architecture, multiprocessors })
    }

    /// Makes the device's context current on this thread, until the result is dropped.
    fn bind(&self) -> Result<Current> {
        // SAFETY: the context is retained.
        check("use the device", unsafe { sys::cuCtxPushCurrent_v2(self.context as sys::CUcontext) })?;
        Ok(Current)
    }
}

/// Keeps the device's context current on this thread. When dropped, the device that another library chose is current
/// again.
struct Current;

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = ptr::null_mut();
        // SAFETY: `bind` pushed a context on this thread. If the driver fails, nothing can be done.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
    }
}

impl Drop for RealDriver {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`. If the driver fails, nothing can be done.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn stream_of(stream: Stream) -> sys::CUstream {
    stream.0 as sys::CUstream
}

fn event_of(event: Event) -> sys::CUevent {
    event.0 as sys::CUevent
}

fn size(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::invalid(format!("{bytes} bytes exceed the address space")))
}

impl Driver for RealDriver {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn architecture(&self) -> u32 {
        self.architecture
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        let _current = self.bind()?;
        let mut memory = 0;
        // SAFETY: the pointer is to our own number.
        let code = unsafe { sys::cuMemAlloc_v2(&raw mut memory, size(bytes)?) };
        check(&format!("allocate {bytes} bytes"), code)?;
        Ok(DevicePtr(memory))
    }

    unsafe fn free(&self, memory: DevicePtr) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("free memory", unsafe { sys::cuMemFree_v2(memory.0) })
    }

    fn allocate_host(&self, bytes: u64) -> Result<u64> {
        let _current = self.bind()?;
        let mut memory = ptr::null_mut();
        // SAFETY: the pointer is to our own value.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut memory, size(bytes)?, HOST_FLAGS) };
        check(&format!("allocate {bytes} bytes of page-locked memory"), code)?;
        Ok(memory as u64)
    }

    unsafe fn free_host(&self, host: u64) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("free page-locked memory", unsafe { sys::cuMemFreeHost(host as *mut c_void) })
    }

    unsafe fn register(&self, host: u64, bytes: u64) -> Result<DevicePtr> {
        let _current = self.bind()?;
        let pointer = host as *mut c_void;
        // SAFETY: the caller's contract.
        let code = unsafe { sys::cuMemHostRegister_v2(pointer, size(bytes)?, REGISTER_FLAGS) };
        check(&format!("register {bytes} bytes of the host's memory (see `ulimit -l`)"), code)?;
        let mut memory = 0;
        // SAFETY: the memory is registered now.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut memory, pointer, 0) };
        if let Err(error) = check("map registered memory", code) {
            // SAFETY: registered above, and not used yet.
            check("unregister memory", unsafe { sys::cuMemHostUnregister(pointer) })?;
            return Err(error);
        }
        Ok(DevicePtr(memory))
    }

    unsafe fn unregister(&self, host: u64) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("unregister memory", unsafe { sys::cuMemHostUnregister(host as *mut c_void) })
    }

    fn recover(&self) -> Result<()> {
        let _current = self.bind()?;
        // The driver API keeps no last error. If earlier work has broken the context, every call reports it, and this
        // one does not wait for anything.
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to our own numbers.
        check("continue after an error", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })
    }

    fn has_batches(&self, stream: Stream) -> bool {
        // Batches are not possible in the default streams.
        self.version >= BATCHES_SINCE && stream.0 > LAST_DEFAULT_STREAM
    }

    unsafe fn copy(&self, copies: &[Copy], stream: Stream) -> Result<()> {
        let _current = self.bind()?;
        if copies.len() > 1 && self.has_batches(stream) {
            // SAFETY: the caller's contract.
            return unsafe { copy_batch(copies, stream) };
        }
        for copy in copies {
            // SAFETY: the caller's contract.
            let code =
                unsafe { sys::cuMemcpyAsync(copy.to, copy.from, size(copy.bytes)?, stream_of(stream)) };
            check(&format!("copy {} bytes", copy.bytes), code)?;
        }
        Ok(())
    }

    unsafe fn fill(&self, to: DevicePtr, byte: u8, bytes: u64, stream: Stream) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("fill memory", unsafe { sys::cuMemsetD8Async(to.0, byte, size(bytes)?, stream_of(stream)) })
    }

    fn compile(&self, source: &str) -> Option<Result<String>> {
        super::nvrtc::compile(source, self.architecture)
    }

    fn load(&self, ptx: &str) -> Result<Module> {
        let _current = self.bind()?;
        let text = CString::new(ptx).map_err(|_| Error::invalid("PTX with a zero byte"))?;
        let mut module = ptr::null_mut();
        // SAFETY: the text is zero-terminated, and only read during the call.
        check("load kernels", unsafe { sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()) })?;
        Ok(Module(module as u64))
    }

    fn function(&self, module: Module, name: &'static str) -> Result<Function> {
        let _current = self.bind()?;
        let text = CString::new(name).map_err(|_| Error::invalid("a kernel's name with a zero byte"))?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is never unloaded; the text is zero-terminated.
        let code =
            unsafe { sys::cuModuleGetFunction(&raw mut function, module.0 as sys::CUmodule, text.as_ptr()) };
        check(&format!("find the kernel {name}"), code)?;
        Ok(Function(function as u64))
    }

    unsafe fn launch(&self, kernel: Function, shape: Shape, stream: Stream, parameter: &[u8]) -> Result<()> {
        let _current = self.bind()?;
        let mut parameters = [parameter.as_ptr().cast_mut().cast::<c_void>()];
        let Shape { blocks, threads } = shape;
        // SAFETY: the caller's contract; the call copies the parameter.
        let code = unsafe {
            sys::cuLaunchKernel(
                kernel.0 as sys::CUfunction,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream_of(stream),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check(&format!("run a kernel in {blocks} blocks"), code)
    }

    fn stream(&self) -> Result<Stream> {
        let _current = self.bind()?;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is to our own value.
        check("create a stream", unsafe { sys::cuStreamCreate(&raw mut stream, NON_BLOCKING) })?;
        Ok(Stream(stream as u64))
    }

    unsafe fn end_stream(&self, stream: Stream) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("end a stream", unsafe { sys::cuStreamDestroy_v2(stream_of(stream)) })
    }

    fn event(&self) -> Result<Event> {
        let _current = self.bind()?;
        let mut event = ptr::null_mut();
        // SAFETY: the pointer is to our own value.
        check("create an event", unsafe { sys::cuEventCreate(&raw mut event, WITHOUT_TIME) })?;
        Ok(Event(event as u64))
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the driver refuses handles that are not its own.
        check("record an event", unsafe { sys::cuEventRecord(event_of(event), stream_of(stream)) })
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: as in `record`.
        check("wait for an event", unsafe { sys::cuStreamWaitEvent(stream_of(stream), event_of(event), 0) })
    }

    fn finish(&self, event: Event, patience: Duration) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: as in `record`.
        poll(patience, Duration::ZERO, "reach an event", || unsafe { sys::cuEventQuery(event_of(event)) })
    }

    unsafe fn end_event(&self, event: Event) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: the caller's contract.
        check("end an event", unsafe { sys::cuEventDestroy_v2(event_of(event)) })
    }

    fn synchronize(&self, stream: Stream, patience: Duration) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: as in `record`.
        let query = || unsafe { sys::cuStreamQuery(stream_of(stream)) };
        poll(patience, SPIN, "finish the work of a stream", query)
    }
}

/// Repeats a query until the device is ready, at first for `spin` without pauses.
fn poll(patience: Duration, spin: Duration, what: &str, query: impl Fn() -> CUresult) -> Result<()> {
    let begin = Instant::now();
    loop {
        let code = query();
        if code != CUresult::CUDA_ERROR_NOT_READY {
            return check(what, code);
        }
        let waited = begin.elapsed();
        if waited >= patience {
            let text = format!("the GPU has not finished its work within {patience:?}; the device may hang");
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        if waited < spin {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(SPIN / 4);
        }
    }
}

/// # Safety
/// Same as [`Driver::copy`].
unsafe fn copy_batch(copies: &[Copy], stream: Stream) -> Result<()> {
    let mut to: Vec<u64> = copies.iter().map(|copy| copy.to).collect();
    let mut from: Vec<u64> = copies.iter().map(|copy| copy.from).collect();
    let mut sizes = copies.iter().map(|copy| size(copy.bytes)).collect::<Result<Vec<usize>>>()?;
    // SAFETY: a struct of numbers and enums, for all of which zero is valid.
    let mut attributes: sys::CUmemcpyAttributes = unsafe { std::mem::zeroed() };
    attributes.srcAccessOrder = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    let mut first_of_attributes = 0;
    // SAFETY: the caller's contract; the lists have the stated number of entries, and one set of attributes applies
    // from copy 0 on.
    let code = unsafe {
        sys::cuMemcpyBatchAsync_v2(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            sizes.as_mut_ptr(),
            copies.len(),
            &raw mut attributes,
            &raw mut first_of_attributes,
            1,
            stream_of(stream),
        )
    };
    check(&format!("copy {} rows", copies.len()), code)
}
