//! Pinning trajectories by index, in stores on this machine and on others.

use std::sync::atomic::Ordering;

use super::options::Trajectory;
use super::pinned::Pinned;
use super::place::StorePlace;
use super::reader::Reader;
use crate::error::{Error, Result};
use crate::metrics::{AGE_CLASSES, age_class};
use crate::peers::messages::{GONE, PinnedRowInfo};
use crate::peers::{Peer, PendingAnswer};

impl Reader {
    /// Pins trajectories: they are not replaced until the result is dropped. Counts as sampling them. An index that
    /// occurs twice is pinned twice.
    ///
    /// # Errors
    /// `NotFound` if a trajectory is not selectable or belongs to another rank, in which case none is pinned.
    pub fn pin(&self, indices: &[u64]) -> Result<Pinned> {
        self.pin_each(indices, true)
    }

    /// Like [`pin`](Self::pin), but does not count samples, because the trajectories are read, not sampled.
    ///
    /// # Errors
    /// Same as [`pin`](Self::pin).
    pub fn hold_each(&self, indices: &[u64]) -> Result<Pinned> {
        self.pin_each(indices, false)
    }

    fn pin_each(&self, indices: &[u64], is_sample: bool) -> Result<Pinned> {
        let (pinned, missing) = self.pin_all(indices, is_sample)?;
        if let Some(&first) = missing.first() {
            return Err(Error::not_found(format!(
                "{} of {} trajectories cannot be pinned (the first one has index {}): they were evicted, or are not finished",
                missing.len(),
                indices.len(),
                indices[first]
            )));
        }
        Ok(pinned)
    }

    /// Pins those trajectories that still exist, and returns the positions of the others, which may have been replaced
    /// since they were drawn.
    ///
    /// # Errors
    /// An index belongs to another rank, the controller ended while it was deciding whether to evict a row, or a store
    /// on another machine does not answer within the network's patience.
    pub fn pin_present(&self, indices: &[u64]) -> Result<(Pinned, Vec<usize>)> {
        self.pin_all(indices, true)
    }

    /// Like [`pin_present`](Self::pin_present), but does not count samples, because the trajectories are not sampled or
    /// were counted elsewhere.
    ///
    /// # Errors
    /// Same as [`pin_present`](Self::pin_present).
    pub fn hold(&self, indices: &[u64]) -> Result<(Pinned, Vec<usize>)> {
        self.pin_all(indices, false)
    }

    /// Makes the next request to each store on another machine open a new connection, because an earlier one failed: the
    /// connections to the other stores have often failed, too. Trajectories that are already pinned stay pinned.
    pub fn reconnect(&self) {
        for place in self.places() {
            if let StorePlace::Remote(peer) = place {
                peer.reconnect();
            }
        }
    }

    pub(crate) fn pin_all(&self, indices: &[u64], is_sample: bool) -> Result<(Pinned, Vec<usize>)> {
        let mut pinned = Pinned::new(self.clone(), indices.len());
        let answers = self.ask_peers(indices, is_sample, &mut pinned)?;
        let mut rows = vec![None; indices.len()];
        let mut ages = [0; AGE_CLASSES];
        for (rank, place) in self.places().iter().enumerate() {
            let StorePlace::Local(owner) = place else { continue };
            let committed = owner.segment.committed().load(Ordering::Relaxed);
            owner.pin_rows(&self.positions_of(rank, indices)?, is_sample, |at, row| {
                ages[age_class(committed.saturating_sub(row.inserted.saturating_add(1)))] += 1;
                pinned.push(row);
                rows[at] = Some(row);
            })?;
        }
        if is_sample {
            self.counters().aged(&ages);
        }
        self.read_answers(answers, indices, &mut rows)?;
        let missing = (0..rows.len()).filter(|&at| rows[at].is_none()).collect();
        if self.places().len() > 1 {
            pinned.reorder(rows.into_iter().flatten().collect());
        }
        Ok((pinned, missing))
    }

    /// Returns the positions and the indices of a rank in a list.
    fn positions_of(&self, rank: usize, indices: &[u64]) -> Result<Vec<(usize, u64)>> {
        let mut positions = Vec::with_capacity(if rank == 0 { indices.len() } else { 0 });
        for (at, &index) in indices.iter().enumerate() {
            if self.rank_of(index)? == rank {
                positions.push((at, index));
            }
        }
        Ok(positions)
    }

    /// Requests pins from the stores on other machines, with one request per store. Returns the positions that each
    /// request covers.
    fn ask_peers(
        &self,
        indices: &[u64],
        is_sample: bool,
        pinned: &mut Pinned,
    ) -> Result<Vec<(Vec<usize>, PendingAnswer)>> {
        let mut answers = Vec::new();
        for (rank, place) in self.places().iter().enumerate() {
            let StorePlace::Remote(peer) = place else { continue };
            let (positions, wanted): (Vec<usize>, Vec<u64>) =
                self.positions_of(rank, indices)?.into_iter().unzip();
            if positions.is_empty() {
                continue;
            }
            let what = format!("asking {} for trajectories", peer.what());
            let (pending, lease) = peer.network().wait(&what, peer.pin(&wanted, is_sample))?;
            pinned.keep(rank, lease);
            answers.push((positions, pending));
        }
        Ok(answers)
    }

    /// Adds the pins in stores on other machines.
    fn read_answers(
        &self,
        answers: Vec<(Vec<usize>, PendingAnswer)>,
        indices: &[u64],
        rows: &mut [Option<Trajectory>],
    ) -> Result<()> {
        for (positions, pending) in answers {
            let StorePlace::Remote(peer) = self.place(indices[positions[0]])? else { continue };
            let what = format!("pinning trajectories of {}", peer.what());
            let found = peer.network().wait(&what, pending.pinned(positions.len()))?;
            for (at, row) in positions.into_iter().zip(found) {
                rows[at] = row_of(&row, indices[at], peer)?;
            }
        }
        Ok(())
    }
}

/// Returns a row from the answer of the store on another machine, or `None` if the row does not exist.
fn row_of(info: &PinnedRowInfo, index: u64, peer: &Peer) -> Result<Option<Trajectory>> {
    let &PinnedRowInfo { generation, length, inserted, sampled, weight } = info;
    if generation == GONE {
        return Ok(None);
    }
    let most = peer.schema().max_steps();
    if length > most {
        return Err(Error::corrupt(format!(
            "{} reported a trajectory {index} of {length} steps, but its limit is {most}",
            peer.what()
        )));
    }
    Ok(Some(Trajectory { index, generation, length, weight, inserted, sampled }))
}
