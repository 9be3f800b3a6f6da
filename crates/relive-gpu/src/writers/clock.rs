//! A clock that all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the host started.
pub(super) fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    u64::try_from(milliseconds).unwrap_or(0)
}
