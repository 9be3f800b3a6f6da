//! Statistics of a run's workers, for observers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::Acted;
use crate::limits::MAX_WORKERS;

/// The maximum number of listed workers: their list takes a few hundred kilobytes.
const MAX_LISTED: usize = 1_000;

/// The statistics of each worker of a run. Clones are cheap and share the statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerStats(Arc<Mutex<AllCounters>>);

#[derive(Debug, Default)]
struct AllCounters {
    workers: BTreeMap<u32, WorkerCounters>,
    /// How many times each worker has joined, if workers are processes, including the run's previous drivers.
    joins: Vec<u32>,
}

#[derive(Debug, Default)]
struct WorkerCounters {
    env_steps: u64,
    episodes: u64,
    version: Option<u64>,
    seen: Option<Instant>,
}

impl WorkerStats {
    /// Continues the counts of the run's previous drivers.
    pub(crate) fn with_joins(joins: Vec<u32>) -> WorkerStats {
        WorkerStats(Arc::new(Mutex::new(AllCounters { workers: BTreeMap::new(), joins })))
    }

    /// Counts a process that has joined as the worker with the given number.
    pub(crate) fn joined(&self, worker: u32) {
        let mut all = self.0.lock();
        all.workers.entry(worker).or_default().seen = Some(Instant::now());
        // Only a faulty program has a larger number.
        let Some(worker) = usize::try_from(worker).ok().filter(|_| worker < MAX_WORKERS) else { return };
        if all.joins.len() <= worker {
            all.joins.resize(worker + 1, 0);
        }
        if let Some(joins) = all.joins.get_mut(worker) {
            *joins = joins.saturating_add(1);
        }
    }

    /// Copies how many times each worker has joined. Returns whether that has changed.
    pub(crate) fn copy_joins(&self, joins: &mut Vec<u32>) -> bool {
        let all = self.0.lock();
        let has_changed = *joins != all.joins;
        if has_changed {
            joins.clone_from(&all.joins);
        }
        has_changed
    }

    /// Adds a report from a worker.
    pub(crate) fn acted(&self, acted: &Acted) {
        let mut all = self.0.lock();
        let member = all.workers.entry(acted.worker).or_default();
        member.env_steps += acted.env_steps;
        member.episodes += acted.episodes.len() as u64;
        member.version = acted.version.or(member.version);
        member.seen = Some(Instant::now());
    }

    /// Returns the number of workers so far.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().workers.len()
    }

    /// Returns the first thousand workers, given the version of the newest weights.
    pub(crate) fn listed(&self, newest: Option<u64>) -> Vec<Value> {
        let all = self.0.lock();
        let joins = |worker: u32| {
            let joins = usize::try_from(worker).ok().and_then(|worker| all.joins.get(worker));
            joins.copied().unwrap_or_default()
        };
        let listed = all.workers.iter().take(MAX_LISTED).map(|(worker, member)| {
            let lag = newest.zip(member.version).map(|(newest, version)| newest.saturating_sub(version));
            json!({
                "worker": worker,
                "env_steps": member.env_steps,
                "episodes": member.episodes,
                "restarts": joins(*worker).saturating_sub(1),
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

    #[test]
    fn the_next_driver_continues_the_counts_of_joins() {
        let stats = WorkerStats::with_joins(vec![0, 2]);
        let mut joins = vec![0, 2];
        assert!(!stats.copy_joins(&mut joins), "nothing has changed");
        for worker in [1, 2, u32::MAX] {
            stats.joined(worker);
        }
        assert!(stats.copy_joins(&mut joins));
        assert_eq!(joins, [0, 3, 1], "no worker has the largest number");
        let restarts: Vec<_> = stats.listed(None).iter().map(|worker| worker["restarts"].clone()).collect();
        assert_eq!(restarts, [2, 0, 0], "of the workers 1, 2 and 4294967295");
    }
}
