//! Statistics of a run's workers, for observers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::Acted;

/// The maximum number of listed workers: their list takes a few hundred kilobytes.
const MAX_LISTED: usize = 1_000;

/// The statistics of each worker of a run. Clones are cheap and share the statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerStats(Arc<Mutex<BTreeMap<u32, WorkerCounters>>>);

#[derive(Debug, Default)]
struct WorkerCounters {
    env_steps: u64,
    episodes: u64,
    version: Option<u64>,
    /// How many times the worker has joined, if it is a process.
    joins: u64,
    seen: Option<Instant>,
}

impl WorkerStats {
    /// Counts a process that has joined as the worker with the given number.
    pub(crate) fn joined(&self, worker: u32) {
        let mut members = self.0.lock();
        let member = members.entry(worker).or_default();
        member.joins += 1;
        member.seen = Some(Instant::now());
    }

    /// Adds a report from a worker.
    pub(crate) fn acted(&self, acted: &Acted) {
        let mut members = self.0.lock();
        let member = members.entry(acted.worker).or_default();
        member.env_steps += acted.env_steps;
        member.episodes += acted.episodes.len() as u64;
        member.version = acted.version.or(member.version);
        member.seen = Some(Instant::now());
    }

    /// Returns the number of workers so far.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns the first thousand workers, given the version of the newest weights.
    pub(crate) fn listed(&self, newest: Option<u64>) -> Vec<Value> {
        let members = self.0.lock();
        let listed = members.iter().take(MAX_LISTED).map(|(worker, member)| {
            let lag = newest.zip(member.version).map(|(newest, version)| newest.saturating_sub(version));
            json!({
                "worker": worker,
                "env_steps": member.env_steps,
                "episodes": member.episodes,
                "restarts": member.joins.saturating_sub(1),
                "weights_version": member.version,
                "version_lag": lag,
                "seen_seconds": member.seen.map(|seen| seen.elapsed().as_secs_f64()),
            })
        });
        listed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_stats_add_up_and_rejoining_counts_as_a_restart() {
        let stats = WorkerStats::default();
        let acted = |version| Acted { worker: 1, env_steps: 5, version, ..Acted::default() };
        stats.joined(1);
        stats.acted(&acted(Some(3)));
        stats.joined(1);
        stats.acted(&acted(None));
        stats.acted(&Acted { worker: 0, ..Acted::default() });
        let listed = stats.listed(Some(7));
        assert_eq!((listed.len(), stats.len()), (2, 2));
        assert_eq!((&listed[0]["restarts"], &listed[0]["version_lag"]), (&0.into(), &Value::Null));
        let (restarts, lag) = (&listed[1]["restarts"], &listed[1]["version_lag"]);
        assert_eq!((&listed[1]["env_steps"], restarts, lag), (&10.into(), &1.into(), &4.into()));
        assert!(listed[1]["seen_seconds"].as_f64().unwrap() < 60.0);
    }
}
