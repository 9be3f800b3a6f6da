//! The counters of a run at one moment.

use std::collections::BTreeMap;
use std::time::Instant;

use relive_client::blocking::Client;

use super::threads::CpuTimes;
use crate::Result;

/// The counters of a run at one moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) env_steps: u64,
    pub(super) learner_steps: u64,
    pub(super) cpu_times: CpuTimes,
    /// Inserts and samples of each table.
    tables: BTreeMap<String, (i64, i64)>,
}

impl Moment {
    /// Records the current moment, on the learner's thread.
    pub(super) fn now(client: &Client, env_steps: u64, learner_steps: u64) -> Result<Moment> {
        let tables = client.server_info()?.tables.into_iter();
        let tables =
            tables.map(|table| (table.config.name.clone(), (table.inserts, table.samples))).collect();
        Ok(Moment { at: Instant::now(), env_steps, learner_steps, cpu_times: CpuTimes::now()?, tables })
    }

    /// Returns the numbers of inserts into a table, and of samples from it, since an earlier moment.
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    pub(super) fn of_table(&self, before: &Moment, table: &str) -> (f64, f64) {
        let at = |moment: &Moment| moment.tables.get(table).copied().unwrap_or_default();
        let (now, then) = (at(self), at(before));
        ((now.0 - then.0) as f64, (now.1 - then.1) as f64)
    }

    /// Returns the number of environment steps since an earlier moment.
    #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
    pub(super) fn steps_since(&self, before: &Moment) -> f64 {
        (self.env_steps - before.env_steps) as f64
    }
}
