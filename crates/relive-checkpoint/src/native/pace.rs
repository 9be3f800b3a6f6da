//! Leaving processors to others while a checkpoint is written.

use std::thread;
use std::time::{Duration, Instant};

/// Work between two looks at the clock of the scheduler.
const PIECE: Duration = Duration::from_millis(5);

/// A piece of which the thread waited at least one such part for a processor was one that others wanted, too.
const WAITED_PART: u32 = 20;

/// Twice the work of such a piece is left to the others: a checkpoint beside those who could use all processors takes
/// a third of one, and about three times as long as on an idle machine.
const REST: u32 = 2;

/// When the calling thread is to rest. A low priority alone is not enough: threads that wait for each other leave
/// processors free for moments, and who takes them is not off again when they wake up.
pub(super) struct Pace {
    since: Instant,
    waited: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), waited: waited() }
    }

    /// Called between small things to do. Rests if others wait for processors.
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

/// How long the calling thread could have run and had no processor; nothing where the system does not tell.
#[cfg(target_os = "linux")]
fn waited() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split_ascii_whitespace()
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
    fn who_waited_for_a_processor_rests() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(5), ms(0)), ms(0));
        assert_eq!(rest(ms(20), Duration::from_micros(999)), ms(0));
        assert_eq!(rest(ms(20), ms(1)), ms(38));
        assert_eq!(rest(ms(20), ms(30)), ms(0));
    }
}
