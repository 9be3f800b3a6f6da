//! Rust's threads in the interpreter: the state that they keep between calls, and their behavior when the interpreter
//! is finalized.
//!
//! Before Python 3.14, a finalizing interpreter calls `pthread_exit` in each thread that requests the interpreter. With
//! glibc, that unwinds the stack, and Rust's frames on it abort the process with SIGABRT. A thread that calls Python
//! from Rust therefore blocks instead, as threads do since Python 3.14, and the process ends with its own exit code.
#![expect(unsafe_code, reason = "a cleanup handler is registered with glibc")]

use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// Calls [`Python::attach`] for a thread that may outlive the interpreter; the thread then blocks here.
pub(crate) fn attach<R>(call: impl FnOnce(Python<'_>) -> R) -> R {
    park_when_finalized();
    Python::try_attach(call).unwrap_or_else(|| park_forever())
}

/// Like [`attach`], for a thread that repeatedly calls a user's Python code: the code's thread-local data, such as
/// Python's `threading.local`, lives until the thread ends.
///
/// A thread that waits for the end of such a thread must not hold the interpreter.
pub(crate) fn attach_in_turn<R>(call: impl FnOnce(Python<'_>) -> R) -> R {
    park_when_finalized();
    let _ = interpreter::THREAD_STATE.try_with(|_| ());
    attach(call)
}

/// Makes this thread block, instead of being ended, once the interpreter is being finalized.
pub(crate) fn park_when_finalized() {
    // A thread whose thread-local variables have been destroyed is about to end anyway.
    let _ = glibc::PARK_ON_UNWIND.try_with(|_| ());
}

/// Blocks a thread that must not continue.
fn park_forever() -> ! {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}

mod interpreter {
    use pyo3::ffi;

    thread_local! {
        /// This value is dropped before the handler that was registered earlier.
        pub(super) static THREAD_STATE: Option<ThreadState> = ThreadState::begin();
    }

    /// The interpreter's state for a thread that Rust started. Without it, each call would make a new state.
    pub(super) struct ThreadState {
        before: ffi::PyGILState_STATE,
        state: *mut ffi::PyThreadState,
    }

    impl ThreadState {
        /// Returns `None` in a thread that Python started, or that is inside a call from Python: it has a state.
        fn begin() -> Option<Self> {
            // SAFETY: the function may be called at any time, by any thread.
            let is_known =
                unsafe { ffi::Py_IsInitialized() == 0 || !ffi::PyGILState_GetThisThreadState().is_null() };
            (!is_known).then(|| {
                // SAFETY: the interpreter is initialized, and the calls are in the documented order.
                let (before, state) = unsafe { (ffi::PyGILState_Ensure(), ffi::PyEval_SaveThread()) };
                Self { before, state }
            })
        }
    }

    impl Drop for ThreadState {
        fn drop(&mut self) {
            // SAFETY: this thread began the state. A finalized interpreter has already freed it.
            unsafe {
                if ffi::Py_IsInitialized() != 0 {
                    ffi::PyEval_RestoreThread(self.state);
                    ffi::PyGILState_Release(self.before);
                }
            }
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;

    /// glibc's `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct Buffer {
        routine: Option<extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Buffer,
    }

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            buffer: *mut Buffer,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: c_int);
    }

    thread_local! {
        /// This value lives as long as the thread.
        pub(super) static PARK_ON_UNWIND: ParkOnUnwind = ParkOnUnwind::begin();
    }

    /// A handler that glibc calls before it unwinds the first frame. Handlers whose buffers are on the stack are called
    /// when unwinding reaches their frame; this handler's buffer is not on the stack.
    pub(super) struct ParkOnUnwind(*mut Buffer);

    impl ParkOnUnwind {
        fn begin() -> Self {
            let buffer = Buffer { routine: None, argument: null_mut(), cancel_type: 0, previous: null_mut() };
            let buffer = Box::into_raw(Box::new(buffer));
            // SAFETY: the buffer is as glibc declares it, and lives until it is popped.
            unsafe { _pthread_cleanup_push(buffer, ended, null_mut()) };
            Self(buffer)
        }
    }

    impl Drop for ParkOnUnwind {
        fn drop(&mut self) {
            // SAFETY: this thread pushed the buffer. The thread is about to end, so the calls that pushed later
            // handlers have returned, and this handler is the innermost.
            let buffer = unsafe {
                _pthread_cleanup_pop(self.0, 0);
                Box::from_raw(self.0)
            };
            drop(buffer);
        }
    }

    extern "C" fn ended(_: *mut c_void) {
        super::park_forever()
    }
}

/// On other platforms, threads end without unwinding.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod glibc {
    thread_local! {
        pub(super) static PARK_ON_UNWIND: () = const { () };
    }
}
