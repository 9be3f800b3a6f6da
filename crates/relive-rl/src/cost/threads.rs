//! How much of a processor each thread of this process has taken.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Result, RlError};

/// What takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// The thread that learns.
    Learner,
    /// A worker: the thread that acts.
    Worker,
    /// What connects it.
    Connection,
    /// Everybody else: who serves tables, publishes and reads ahead.
    Others,
}

/// Threads of a worker, as the system has their names: 15 characters.
const WORKER: &str = "relive-rl-worke";
const OF_CONNECTIONS: [&str; 2] = ["relive-client", "relive-probe"];

/// What threads have taken until now.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(BTreeMap<u64, (Option<Side>, Duration, Duration)>);

impl Taken {
    /// Until now, where the thread that asks is the one that learns.
    ///
    /// # Errors
    /// The system does not tell.
    pub(super) fn now() -> Result<Taken> {
        let own = thread_id()?;
        let entries = std::fs::read_dir("/proc/self/task").map_err(|error| unknown(&error))?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
        // One that ends meanwhile is as if it had not been there.
        let threads = ids.filter_map(|id| {
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok()?;
            let side = match name.trim_end() {
                _ if id == own => Side::Learner,
                WORKER => Side::Worker,
                name if OF_CONNECTIONS.contains(&name) => Side::Connection,
                _ => Side::Others,
            };
            let (took, waited) = read(&format!("/proc/self/task/{id}/schedstat")).ok()?;
            Some((id, (Some(side), took, waited)))
        });
        Ok(Taken(threads.collect()))
    }

    /// Seconds that a side has taken since then, and seconds for which it was ready and had no processor.
    pub(super) fn since(&self, before: &Taken, side: Side) -> (f64, f64) {
        let of_side = self.0.iter().filter(|(_, (own, _, _))| *own == Some(side));
        let (mut took, mut waited) = (Duration::ZERO, Duration::ZERO);
        for (id, (_, now_took, now_waited)) in of_side {
            let (_, then_took, then_waited) = before.0.get(id).copied().unwrap_or_default();
            took += now_took.saturating_sub(then_took);
            waited += now_waited.saturating_sub(then_waited);
        }
        (took.as_secs_f64(), waited.as_secs_f64())
    }
}

/// What the thread that asks has taken.
///
/// # Errors
/// The system does not tell.
pub(super) fn own() -> Result<Duration> {
    read("/proc/thread-self/schedstat").map(|(took, _)| took)
}

/// The time on a processor, and the time that was spent waiting for one.
fn read(path: &str) -> Result<(Duration, Duration)> {
    let text = std::fs::read_to_string(path).map_err(|error| unknown(&error))?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok().map(Duration::from_nanos));
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(took), Some(waited)) => Ok((took, waited)),
        _ => Err(unknown(&format_args!("{path} has {text:?}"))),
    }
}

fn thread_id() -> Result<u64> {
    let own = std::fs::read_link("/proc/thread-self").map_err(|error| unknown(&error))?;
    let id = own.file_name().and_then(|name| name.to_str()?.parse().ok());
    id.ok_or_else(|| unknown(&format_args!("/proc/thread-self is {}", own.display())))
}

fn unknown(why: &dyn std::fmt::Display) -> RlError {
    RlError::setting(
        "what threads take of processors",
        why,
        "told by the system, as Linux does: measure there, and give the costs as a file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_thread_is_counted_for_its_side() {
        let before = Taken::now().unwrap();
        let (own_before, mut sum) = (own().unwrap(), 0_u64);
        while own().unwrap() < own_before + Duration::from_millis(20) {
            sum = (0..10_000).fold(sum, u64::wrapping_add);
        }
        let now = Taken::now().unwrap();
        let (took, _) = now.since(&before, Side::Learner);
        assert!(took >= 0.019 && sum > 0, "{took}");
        assert_eq!(now.since(&now, Side::Learner), (0.0, 0.0));
    }
}
