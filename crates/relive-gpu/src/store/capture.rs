//! Takes a snapshot of a store, and restores a new store from one.

use std::sync::atomic::Ordering;

use super::controller::{Controller, without_sign};
use super::inner::Inner;
use super::snapshot::{Snapshot, SnapshotRow};
use crate::bytes::narrow;
use crate::error::Result;
use crate::memory::segment::Segment;
use relive_gpu_protocol::pin::{RowState, Stamp};

impl Inner {
    /// Takes a snapshot of the store, and runs `act` on it while only weights and sample counts can change.
    pub(crate) fn snapshot<T>(&self, act: impl FnOnce(&Snapshot) -> Result<T>) -> Result<(Snapshot, T)> {
        let state = self.state.lock();
        let snapshot = snapshot(&self.segment, &state);
        let done = act(&snapshot)?;
        Ok((snapshot, done))
    }

    /// Restores a new store from the snapshot. The bytes of its rows must already be complete.
    pub(crate) fn restore(&self, snapshot: &Snapshot) {
        let segment = &self.segment;
        let mut state = self.state.lock();
        let limit = segment.header().shape.max_times_sampled;
        for (cell, &generation) in segment.states().iter().zip(&snapshot.generations) {
            cell.store(Stamp::new(RowState::Free, generation).word(), Ordering::SeqCst);
        }
        for row in &snapshot.rows {
            let at = narrow(row.row);
            segment.lengths()[at].store(row.length, Ordering::Relaxed);
            segment.inserted()[at].store(row.inserted, Ordering::Relaxed);
            segment.sampled()[at].store(row.sampled, Ordering::Relaxed);
            let stamp = Stamp::new(RowState::Selectable, row.generation);
            segment.states()[at].store(stamp.word(), Ordering::SeqCst);
            // A reader may have exhausted the trajectory after its weight was saved, but before its count was.
            let weight = if limit > 0 && row.sampled >= limit { 0.0 } else { without_sign(row.weight) };
            segment.weights()[at].store(weight.to_bits(), Ordering::Release);
        }
        segment.committed().store(snapshot.committed, Ordering::Relaxed);
        segment.note_change();
        state.restore(segment, snapshot);
    }
}

fn snapshot(segment: &Segment, state: &Controller) -> Snapshot {
    let mut free: Vec<u64> = state.free.iter().copied().collect();
    let (mut rows, mut generations) = (Vec::new(), Vec::new());
    for (row, word) in (0..).zip(segment.states()) {
        let stamp = Stamp::from_word(word.load(Ordering::Relaxed));
        let at = narrow(row);
        generations.push(stamp.generation);
        match stamp.state {
            RowState::Selectable => rows.push(SnapshotRow {
                row,
                generation: stamp.generation,
                length: segment.lengths()[at].load(Ordering::Relaxed),
                weight: f32::from_bits(segment.weights()[at].load(Ordering::Relaxed)),
                inserted: segment.inserted()[at].load(Ordering::Relaxed),
                sampled: segment.sampled()[at].load(Ordering::Relaxed),
            }),
            RowState::Writing => free.push(row),
            // Free rows are in the list; no row is being evicted while the lock is held.
            RowState::Free | RowState::Evicting => {}
        }
    }
    Snapshot {
        rows,
        generations,
        free,
        order: state.order.saved().to_vec(),
        random: state.random.state(),
        committed: state.committed,
    }
}
