//! The thread that keeps memory within the budget.

use std::sync::{Arc, Weak};
use std::time::Duration;

use relive_tensor::Chunk;

use super::sweep::{Step, Sweep};
use crate::catalogue::Catalogue;
use crate::memory::{DiskTier, part};

/// The number of bytes that are stored at once, which is the size of a file.
#[derive(Debug, Clone, Copy)]
struct StepBytes {
    /// The size while few bytes are on disk.
    least: u64,
    most: u64,
}

/// The part of the bytes on disk that a file has at least, as far as the budget allows. Files are mapped, and a Linux
/// process can have 65,530 mappings, so the more bytes are on disk, the larger are the files. A budget of 64 MiB limits
/// them to 4 MiB, and therefore the tier to about 256 GiB.
const PART_OF_DISK: u64 = 1 << 13;

impl StepBytes {
    fn of_budget(budget_bytes: u64) -> Self {
        let least = (budget_bytes / 64).clamp(1 << 20, 32 << 20);
        Self { least, most: (budget_bytes / 16).clamp(least, 1 << 30) }
    }

    fn with_on_disk(self, spilled_bytes: u64) -> u64 {
        (spilled_bytes / PART_OF_DISK).clamp(self.least, self.most)
    }
}

/// The number of slots that the clock hand passes in one step if most chunks in memory were read back from disk. The
/// number is small, because those chunks are found without the hand.
const FEW_PLACES: usize = 2_048;

/// The number of rounds in which the hand may find nothing before the thread waits. More than one is needed, because
/// the first round only clears the marks of recent reads.
const IDLE_ROUNDS: u32 = 2;

/// The pause before the next attempt if no chunk could move because the disk is full, or because writers and readers
/// are using all chunks in memory.
const RETRY: Duration = Duration::from_millis(250);

/// Starts a thread that keeps the memory of `tables` within the budget.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(tier: &Arc<DiskTier>, budget_bytes: u64, tables: &Arc<Catalogue>) -> std::io::Result<()> {
    let weak = Arc::downgrade(tier);
    // The tables own the tier, so its thread must not keep the tables alive.
    let tables = Arc::downgrade(tables);
    let step_bytes = StepBytes::of_budget(budget_bytes);
    let run = move || {
        let mut sweep = Sweep::default();
        while let Some(wait) = turn(&weak, &tables, step_bytes, &mut sweep) {
            wait.map_or_else(std::thread::park, std::thread::park_timeout);
        }
    };
    let thread = std::thread::Builder::new().name("relive-spill".to_owned()).spawn(run)?;
    // The thread can be detached, since it keeps nothing alive longer than the tables.
    tier.served_by(thread.thread().clone());
    Ok(())
}

/// Performs one turn of the thread's work. Returns how long the thread then waits (`Some(None)`: until it is woken), or
/// `None` if it must end.
fn turn(
    tier: &Weak<DiskTier>,
    tables: &Weak<Catalogue>,
    step_bytes: StepBytes,
    sweep: &mut Sweep,
) -> Option<Option<Duration>> {
    let (tier, tables) = (tier.upgrade()?, tables.upgrade()?);
    Some(Spiller { tier: &tier, tables: &tables, step_bytes }.work(sweep))
}

/// The tier and the tables while the thread works.
struct Spiller<'a> {
    tier: &'a DiskTier,
    tables: &'a Arc<Catalogue>,
    step_bytes: StepBytes,
}

impl Spiller<'_> {
    fn step_bytes(&self) -> u64 {
        self.step_bytes.with_on_disk(self.tier.spilled_bytes())
    }

    /// Returns whether the engine is gone, so that only this thread still keeps the list of tables.
    fn is_ended(&self) -> bool {
        Arc::strong_count(self.tables) == 1
    }

    /// Stores chunks until memory is within the budget. Returns how long to wait, or `None` to wait until the thread is
    /// woken.
    fn work(&self, sweep: &mut Sweep) -> Option<Duration> {
        self.tier.begin_work();
        let mut idle = 0;
        while self.tier.resident_bytes() > self.tier.marks.end_bytes && !self.is_ended() {
            let step = self.step(sweep, idle > 0);
            idle = if step.bytes > 0 { 0 } else { idle + u32::from(step.is_round) };
            if idle > IDLE_ROUNDS || !self.tier.store_all(&step.cold) {
                return Some(RETRY);
            }
        }
        self.compact()
    }

    /// Returns the next chunks to move: chunks that were never on disk and chunks that were read back, in proportion to
    /// their bytes in memory, so that neither kind displaces the other.
    fn step(&self, sweep: &mut Sweep, is_idle: bool) -> Step {
        let (returned, resident) = (self.tier.returned.size_bytes(), self.tier.resident_bytes());
        let step_bytes = self.step_bytes();
        let share = part(step_bytes, returned, resident);
        let places = if returned > resident / 2 && !is_idle { FEW_PLACES } else { usize::MAX };
        // The hand skips chunks that were read back, which are found without it, unless another thread has read them.
        let is_cold = |chunk: &Chunk| (is_idle || !chunk.is_stored()) && is_cold(chunk);
        let mut step = sweep.step(&self.tables.cores(), step_bytes - share, places, is_cold);
        step.extend(self.tier.returned.take(step_bytes.saturating_sub(step.bytes)));
        step
    }

    /// Rewrites the file with the most waste.
    fn compact(&self) -> Option<Duration> {
        let mut hand = Sweep::default();
        let store = &self.tier.store;
        while store.is_sparse() && !self.is_ended() {
            let is_misplaced = |chunk: &Chunk| chunk.is_stored() && store.is_sparse_around(chunk);
            let step = hand.step(&self.tables.cores(), self.step_bytes(), usize::MAX, is_misplaced);
            if !self.tier.store_all(&step.cold) {
                return Some(RETRY);
            }
            if step.is_round {
                break;
            }
        }
        None
    }
}

/// Returns whether a chunk can move and has not been read recently.
fn is_cold(chunk: &Chunk) -> bool {
    chunk.is_movable() && chunk.is_resident() && !chunk.take_touched() && !chunk.is_frame_in_use()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_grow_with_the_bytes_on_disk() {
        let sizes = |budget_mib: u64, disk_gib: [u64; 3]| {
            let step = StepBytes::of_budget(budget_mib << 20);
            disk_gib.map(|gib| step.with_on_disk(gib << 30) >> 20)
        };
        assert_eq!(sizes(16, [0, 1, 1_000]), [1, 1, 1]);
        assert_eq!(sizes(64, [0, 16, 1_000]), [1, 2, 4]);
        assert_eq!(sizes(8_192, [0, 512, 100_000]), [32, 64, 512]);
        assert_eq!(sizes(1 << 20, [0, 1_024, 100_000]), [32, 128, 1_024]);
    }
}
