//! The growth rates of counters, computed from two snapshots.

use super::snapshot::{Snapshot, Table};

/// The growth of a table's counters per second. A rate is `None` if its counter was reset between the snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::commands) struct Rates {
    pub(in crate::commands) inserts_per_s: Option<f64>,
    pub(in crate::commands) samples_per_s: Option<f64>,
}

impl Rates {
    /// Returns the rates of `table`, which belongs to `now`.
    pub(in crate::commands) fn between(before: &Snapshot, now: &Snapshot, table: Table<'_>) -> Self {
        let seconds = now.taken_at.saturating_duration_since(before.taken_at).as_secs_f64();
        let earlier = before.table(&table.info.config.name).map(|table| table.info);
        let rate = |earlier: Option<i64>, later: i64| {
            let grown = later.checked_sub(earlier?).filter(|grown| *grown >= 0 && seconds > 0.0)?;
            Some(grown as f64 / seconds)
        };
        Self {
            inserts_per_s: rate(earlier.map(|info| info.inserts), table.info.inserts),
            samples_per_s: rate(earlier.map(|info| info.samples), table.info.samples),
        }
    }
}
