//! Threads that run Rust code while the interpreter is finalized.
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
