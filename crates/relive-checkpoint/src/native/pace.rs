//! Yields processors to other threads while a checkpoint is written.

use std::thread;
use std::time::{Duration, Instant};

/// The amount of work that is done between two checks of the scheduler's clock.
const PIECE: Duration = Duration::from_millis(5);

/// If the thread has waited for a processor for at least this fraction (1/20) of the time of a piece of work, it
/// assumes that other threads were also waiting for processors.
const WAITED_PART: u32 = 20;

/// How long the thread rests after such a piece of work, as a multiple of the time that the work took. If other threads
/// can use all processors, writing a checkpoint uses a third of one processor, and takes about three times as long as
/// on an idle machine.
const REST: u32 = 2;

/// Decides when the calling thread rests. A low priority alone is not enough: threads that wait for each other briefly
/// leave processors idle, and a thread that takes an idle processor does not yield it as soon as the other threads wake
/// up.
pub(super) struct Pace {
    since: Instant,
    waited: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), waited: waited() }
    }

    /// Called between small pieces of work. Rests if other threads are waiting for processors.
    pub(super) fn keep(&mut self) {
        let took = self.since.elapsed();
        if took < PIECE {
            return;
        }
        let waited = waited();
        thread::sleep(rest(took, waited.saturating_sub(self.waited)));
        *self = Self { since: Instant::now(), waited };
    }
}

fn rest(took: Duration, waited: Duration) -> Duration {
    if waited >= took / WAITED_PART { took.saturating_sub(waited) * REST } else { Duration::ZERO }
}

/// Returns how long the calling thread has been runnable but without a processor, or zero if the system does not report
/// this time.
#[cfg(target_os = "linux")]
fn waited() -> Duration {
    let stats = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stats
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|nanos| nanos.parse().ok())
        .map_or(Duration::ZERO, Duration::from_nanos)
}

#[cfg(not(target_os = "linux"))]
fn waited() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waited_for_a_processor_rests() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(5), ms(0)), ms(0));
        assert_eq!(rest(ms(20), Duration::from_micros(999)), ms(0));
        assert_eq!(rest(ms(20), ms(1)), ms(38));
        assert_eq!(rest(ms(20), ms(30)), ms(0));
    }
}
