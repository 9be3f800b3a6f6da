//! The processor time of each thread of this process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Result, RlError};

/// The owner of processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// The learner's thread.
    Learner,
    /// The acting thread of a worker.
    Worker,
    /// A worker's connection.
    Connection,
    /// All other threads, such as those that serve tables, publish and prefetch.
    Others,
}

/// The name of a worker's threads, cut to 15 characters by the system.
const WORKER: &str = "relive-rl-worke";
const OF_CONNECTIONS: [&str; 2] = ["relive-client", "relive-probe"];

/// The processor times of all threads so far.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuTimes(BTreeMap<u64, (Option<Side>, Duration, Duration)>);

impl CpuTimes {
    /// Reads the times; the calling thread counts as the learner's thread.
    ///
    /// # Errors
    /// The system does not report the processor times of threads.
    pub(super) fn now() -> Result<CpuTimes> {
        let own = thread_id()?;
        let entries = std::fs::read_dir("/proc/self/task").map_err(|error| unknown(&error))?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
        // A thread that ends in the meantime is skipped.
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
        Ok(CpuTimes(threads.collect()))
    }

    /// Returns for how many seconds the given side has run since `before`, and for how many seconds it was runnable but
    /// had no processor.
    pub(super) fn since(&self, before: &CpuTimes, side: Side) -> (f64, f64) {
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

/// Returns the processor time of the calling thread.
///
/// # Errors
/// The system does not report the processor time of threads.
pub(super) fn own() -> Result<Duration> {
    read("/proc/thread-self/schedstat").map(|(took, _)| took)
}

/// Returns how long a thread ran on a processor, and how long it was runnable but had no processor.
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
        "the CPU time of threads",
        why,
        "reported by the system: measure on Linux, and give the costs as a file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_cpu_time_is_attributed_to_its_side() {
        let before = CpuTimes::now().unwrap();
        let (own_before, mut sum) = (own().unwrap(), 0_u64);
        while own().unwrap() < own_before + Duration::from_millis(20) {
            sum = (0..10_000).fold(sum, u64::wrapping_add);
        }
        let now = CpuTimes::now().unwrap();
        let (took, _) = now.since(&before, Side::Learner);
        assert!(took >= 0.019 && sum > 0, "{took}");
        assert_eq!(now.since(&now, Side::Learner), (0.0, 0.0));
    }
}
