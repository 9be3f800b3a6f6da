//! Waits on a word that processes share, and provides a clock that is common to all processes.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

/// Returns the end of a wait that begins now. A deadline that cannot be represented is replaced by one that is never
/// reached.
pub(crate) fn deadline(patience: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(patience).unwrap_or_else(|| now + Duration::from_secs(u64::from(u32::MAX)))
}

/// Waits while `word` is `value`, at most until `deadline`. May return early, so callers must check the word again.
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return;
    }
    // Shared between processes, so the flag PRIVATE is not set.
    match futex::wait(word, futex::Flags::empty(), value, Some(&timespec(left))) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // No other error is possible for an aligned word; the yield prevents a busy loop if one occurs anyway.
        Err(_) => std::thread::yield_now(),
    }
}

/// Wakes all waiters of `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // The call fails only if the word is unmapped, which a reference to it rules out.
    let _: Result<usize, Errno> = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}

/// Returns the milliseconds since the host started.
pub(crate) fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    u64::try_from(milliseconds).unwrap_or(0)
}

fn timespec(duration: Duration) -> rustix::thread::Timespec {
    rustix::thread::Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
