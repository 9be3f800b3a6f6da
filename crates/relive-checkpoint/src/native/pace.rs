//! Yields processors to other threads while a checkpoint is written.

use std::thread;
use std::time::{Duration, Instant};

/// The amount of work that is done between two checks of the scheduler's clock.
const PIECE: Duration = Duration::from_millis(5);

/// If the thread has waited for a processor for at least this fraction (1/20) of the time of a piece of work, it
/// assumes that other threads were also waiting for processors.
const WAITED_PART: u32 = 20;

/// How long the thread rests after such a piece of work, as a multiple of the processor time that the work used. If
/// other threads can use all processors, writing a checkpoint uses a third of one processor, and takes about three
/// times as long as on an idle machine.
const REST: u32 = 2;

/// Decides when the calling thread rests. A low priority alone is not enough: threads that wait for each other briefly
/// leave processors idle, and a thread that takes an idle processor does not yield it as soon as the other threads wake
/// up.
pub(super) struct Pace {
    since: Instant,
    before: Times,
}

/// How long a thread has used and waited for processors.
#[derive(Clone, Copy, Default)]
struct Times {
    ran: Duration,
    /// While the thread was runnable, but not running. Blocked time, such as waits for a disk, is not counted.
    waited: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), before: times() }
    }

    /// Called between small pieces of work. Rests if other threads are waiting for processors.
    pub(super) fn keep(&mut self) {
        let took = self.since.elapsed();
        if took < PIECE {
            return;
        }
        let Times { ran, waited } = times();
        let Times { ran: ran_before, waited: waited_before } = self.before;
        thread::sleep(rest(took, ran.saturating_sub(ran_before), waited.saturating_sub(waited_before)));
        *self = Self { since: Instant::now(), before: Times { ran, waited } };
    }
}

fn rest(took: Duration, ran: Duration, waited: Duration) -> Duration {
    if waited >= took / WAITED_PART { ran * REST } else { Duration::ZERO }
}

/// Returns the times of the calling thread, or zeros if the system does not report them.
#[cfg(target_os = "linux")]
fn times() -> Times {
    let stats = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut nanos = stats.split_ascii_whitespace().map(|nanos| nanos.parse().unwrap_or_default());
    let mut next = || nanos.next().map_or(Duration::ZERO, Duration::from_nanos);
    let (ran, waited) = (next(), next());
    Times { ran, waited }
}

#[cfg(not(target_os = "linux"))]
fn times() -> Times {
    Times::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waited_for_a_processor_rests() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(5), ms(5), ms(0)), ms(0));
        assert_eq!(rest(ms(20), ms(19), Duration::from_micros(999)), ms(0));
        assert_eq!(rest(ms(20), ms(19), ms(1)), ms(38));
    }

    #[test]
    fn a_thread_that_waited_for_a_disk_yields_no_more_than_it_used() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(5000), ms(10), ms(300)), ms(20));
    }
}
