//! The report of a run.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::model::Totals;
use crate::world::World;

/// The maximum relative change of the server's memory use.
const MAX_DRIFT: f64 = 0.02;

/// The minimum number of memory readings to distinguish a drift from the noise of single seconds: ten minutes.
const ENOUGH_NOTES: usize = 600;

pub(crate) struct Report {
    totals: Totals,
    faults: Vec<String>,
    panics: Vec<String>,
    /// Why the run ended before its time.
    broken: Option<String>,
    counts: [(&'static str, u64); 7],
    inserts: [f64; 3],
    samples: [f64; 3],
    /// Bytes in the first and the last quarter of the time without kills, and the number of readings.
    memory: Option<(f64, f64, usize)>,
}

impl Report {
    pub(crate) fn of(world: &World, broken: Option<String>) -> Report {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &world.counts;
        Report {
            totals: world.model.totals(),
            faults: world.model.faults(),
            panics: world.server.panics(),
            broken,
            counts: [
                ("kills", count(&counts.kills)),
                ("cuts", count(&counts.cuts)),
                ("troubles", count(&counts.troubles)),
                ("garbage", count(&counts.garbage)),
                ("checkpoints", count(&counts.checkpoints)),
                ("streamed", count(&counts.streamed)),
                ("failed_calls", count(&counts.failed)),
            ],
            inserts: world.inserts.milliseconds(),
            samples: world.samples.milliseconds(),
            memory: quarters(&world.memory.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn drift(&self) -> Option<f64> {
        self.memory.map(|(first, last, _)| last / first - 1.0)
    }

    fn drifts(&self) -> bool {
        let is_long = self.memory.is_some_and(|(_, _, notes)| notes >= ENOUGH_NOTES);
        is_long && self.drift().is_some_and(|drift| drift.abs() > MAX_DRIFT)
    }

    pub(crate) fn holds(&self) -> bool {
        self.faults.is_empty() && self.panics.is_empty() && self.broken.is_none() && !self.drifts()
    }

    pub(crate) fn json(&self) -> String {
        let Totals { confirmed, deleted, updated, checked, looks, taken_back } = self.totals;
        let counts = self.counts.map(|(name, count)| format!("\"{name}\": {count}")).join(", ");
        format!(
            "{{\"holds\": {}, \"faults\": {}, \"panics\": {}, \"confirmed\": {confirmed}, \"deleted\": {deleted}, \
             \"updated\": {updated}, \"checked\": {checked}, \"looks\": {looks}, \"taken_back_by_kills\": {taken_back}, \
             {counts}, \"insert_ms\": {:?}, \"sample_ms\": {:?}, \"memory_drift\": {}}}\n",
            self.holds(),
            self.faults.len(),
            self.panics.len(),
            self.inserts,
            self.samples,
            self.drift().map_or("null".to_owned(), |drift| format!("{drift:.4}")),
        )
    }
}

/// Returns the medians of the first and the last quarter. The first tenth is left out, since memory use grows while
/// readers reconnect.
fn quarters(notes: &[(Instant, u64)]) -> Option<(f64, f64, usize)> {
    let notes = notes.get(notes.len() / 10..)?;
    let quarter = notes.len() / 4;
    let median = |notes: &[(Instant, u64)]| {
        let mut bytes: Vec<u64> = notes.iter().map(|(_, bytes)| *bytes).collect();
        bytes.sort_unstable();
        bytes.get(bytes.len() / 2).map(|bytes| *bytes as f64)
    };
    Some((median(notes.get(..quarter)?)?, median(notes.get(notes.len() - quarter..)?)?, notes.len()))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { confirmed, deleted, updated, checked, looks, taken_back } = self.totals;
        writeln!(f, "items: {confirmed} confirmed, {deleted} deleted, {updated} priorities updated")?;
        writeln!(f, "checks: {checked} items read by calls, {looks} looks at the whole table")?;
        writeln!(f, "taken back by kills, as it may be: {taken_back} items that no checkpoint had")?;
        for (name, count) in self.counts {
            writeln!(f, "{}: {count}", name.replace('_', " "))?;
        }
        for (name, [median, most, max]) in [
            ("insert and confirmation of up to 64 items", self.inserts),
            ("sample of 32 items", self.samples),
        ] {
            writeln!(f, "{name}: median {median:.1} ms, 99 % {most:.1} ms, longest {max:.0} ms")?;
        }
        if let Some((first, last, notes)) = self.memory {
            let change = (last / first - 1.0) * 100.0;
            writeln!(
                f,
                "memory without kills: {:.1} MB, then {:.1} MB: {change:+.1} % in {notes} s",
                first / 1e6,
                last / 1e6
            )?;
        }
        self.panics.iter().try_for_each(|panic| writeln!(f, "panic: {panic}"))?;
        self.faults.iter().take(20).try_for_each(|fault| writeln!(f, "fault: {fault}"))?;
        if let Some(broken) = &self.broken {
            writeln!(f, "broken off: {broken}")?;
        }
        let verdict = if self.holds() { "held" } else { "FAILED" };
        write!(f, "{verdict}: {} faults, {} panics", self.faults.len(), self.panics.len())
    }
}
