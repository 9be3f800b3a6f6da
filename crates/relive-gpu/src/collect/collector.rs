//! Collection: copies windows of trajectories into batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_threads::Pool;

use super::batch::{Batch, Ring};
use super::copy::{Target, copy};
use super::plan::{BatchPlan, RowPlan};
use super::remote::Remote;
use super::window::Window;
use crate::bytes::wide;
use crate::error::{Error, Result};
use crate::metrics::{Metrics, nanos};
use crate::peers::Peer;
use crate::peers::messages::RowRequest;
use crate::store::{Pinned, Reader, Shard, StorePlace, Trajectory};

/// Options of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectOptions {
    /// The maximum number of rows in a batch.
    pub rows: u64,
    /// The maximum number of batches at the same time. Their memory is created when it is first needed, and reused
    /// cyclically.
    pub batches: usize,
    /// The number of copying threads, including the caller's.
    pub threads: usize,
    /// Whether rows are visited in memory order. Either way, the batch contains them in the order in which they were
    /// pinned.
    pub sorted: bool,
    /// How long a collection waits for memory while all batches are in use.
    pub patience: Duration,
}

impl CollectOptions {
    /// Creates options for batches of up to the given number of rows; up to 3 batches are reused cyclically and copied by 2
    /// threads, and waits end after 30 s.
    #[must_use]
    pub fn new(rows: u64) -> Self {
        Self { rows, batches: 3, threads: 2, sorted: false, patience: Duration::from_secs(30) }
    }
}

/// Makes batches that all have the same windows, in reused memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Collector {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reader: Reader,
    ring: Arc<Ring>,
    pool: Pool,
    options: CollectOptions,
}

impl Collector {
    /// Creates a collector for these windows; it reads the stores of all ranks if the reader does.
    ///
    /// # Errors
    /// A window has an unknown column, no steps, or an impossible cast or padding value; rows, batches or windows are
    /// 0; or memory for the batches is insufficient.
    pub fn new(reader: &Reader, windows: &[Window], options: CollectOptions) -> Result<Self> {
        let plan = BatchPlan::new(reader.segment(), windows, options.rows)?;
        let shared = Shared {
            ring: Ring::new(plan, reader.schema().clone(), options.batches)?,
            pool: Pool::new(options.threads)
                .map_err(|error| Error::system("start a thread that collects", error))?,
            reader: reader.clone(),
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the plan of the collector's batches.
    #[must_use]
    pub fn plan(&self) -> &BatchPlan {
        &self.shared.ring.plan
    }

    #[cfg(test)]
    pub(super) fn batches_created(&self) -> usize {
        self.shared.ring.created()
    }

    /// Copies the windows of pinned trajectories into a batch: row `i` is trajectory `i`, at its step `steps[i]`.
    ///
    /// # Errors
    /// The errors of [`collect_into`](Self::collect_into), and `Unavailable` if all batches are in use for longer than
    /// the options' patience; `System` if there is no memory for another batch.
    pub fn collect(&self, pinned: &Pinned, steps: &[u64]) -> Result<Batch> {
        let shared = &*self.shared;
        let mut batch = shared.ring.take(shared.options.patience, shared.reader.counters())?;
        self.collect_into(pinned, steps, &mut batch)?;
        Ok(batch)
    }

    /// Like [`collect`](Self::collect), but into a batch that this collector created before.
    ///
    /// # Errors
    /// The trajectories belong to another store, or exceed the rows of a batch; the numbers of steps and trajectories
    /// differ; a step is beyond its trajectory's length; or the batch belongs to another collector. `Unavailable` if a
    /// store on another machine does not answer within the network's patience, or its connection is lost. In this case,
    /// the trajectories must be pinned again.
    pub fn collect_into(&self, pinned: &Pinned, steps: &[u64], batch: &mut Batch) -> Result<()> {
        let begin = Instant::now();
        let shared = &*self.shared;
        self.check(pinned, steps, batch)?;
        let (plans, rows, valid, start) = batch.parts();
        rows.clear();
        rows.extend_from_slice(pinned.rows());
        let mut target = Target { start, valid: valid.as_mut_ptr() };
        let mut remote = self.plan_remote(pinned, steps)?;
        let mut bytes = 0;
        let mut pending = Vec::new();
        for (peer, rows) in &mut remote {
            pending.push(peer.network().wait(&format!("asking {} for rows", peer.what()), rows.ask())?);
        }
        for (rank, place) in shared.reader.places().iter().enumerate() {
            let StorePlace::Local(store) = place else { continue };
            self.plan_rows(pinned, steps, rank, store.shard, plans)?;
            bytes += copy(&store.segment, &shared.ring.plan, plans, &target, &shared.pool);
        }
        for ((peer, rows), pending) in remote.iter_mut().zip(pending) {
            let what = format!("reading rows of {}", peer.what());
            bytes += peer.network().wait(&what, rows.receive(pending, &mut target))?;
        }
        let metrics = pinned.counters();
        Metrics::add(&metrics.collects, 1);
        Metrics::add(&metrics.collected_rows, wide(steps.len()));
        Metrics::add(&metrics.collected_bytes, bytes);
        Metrics::add(&metrics.collect_nanos, nanos(begin.elapsed()));
        Ok(())
    }

    /// Plans the rows that are in one of the stores.
    fn plan_rows(
        &self,
        pinned: &Pinned,
        steps: &[u64],
        rank: usize,
        shard: Shard,
        plans: &mut Vec<RowPlan>,
    ) -> Result<()> {
        let shared = &*self.shared;
        plans.clear();
        for (at, (row, &step)) in (0..).zip(pinned.rows().iter().zip(steps)) {
            if shared.reader.rank_of(row.index)? == rank {
                plans.push(RowPlan { row: shard.local(row.index)?, step, length: row.length, at });
            }
        }
        if shared.options.sorted {
            plans.sort_unstable_by_key(|plan| (plan.row, plan.step));
        }
        Ok(())
    }

    /// Returns the requests to other machines.
    fn plan_remote<'a>(&'a self, pinned: &'a Pinned, steps: &[u64]) -> Result<Vec<(&'a Peer, Remote<'a>)>> {
        let shared = &*self.shared;
        let mut remote = Vec::new();
        for (rank, place) in shared.reader.places().iter().enumerate() {
            let StorePlace::Remote(peer) = place else { continue };
            // If nothing is leased from this rank's store, none of the rows are in that store.
            let Some(lease) = pinned.lease(rank) else { continue };
            let mut rows = Vec::new();
            for (at, (row, &step)) in (0..).zip(pinned.rows().iter().zip(steps)) {
                if shared.reader.rank_of(row.index)? == rank {
                    let &Trajectory { index, generation, length, .. } = row;
                    rows.push((
                        RowPlan { row: index, step, length, at },
                        RowRequest { index, generation, step },
                    ));
                }
            }
            remote.push((peer, Remote::new(lease, &shared.ring.plan, rows)));
        }
        Ok(remote)
    }

    fn check(&self, pinned: &Pinned, steps: &[u64], batch: &Batch) -> Result<()> {
        let shared = &*self.shared;
        if !pinned.reader().is(&shared.reader) {
            return Err(Error::invalid(
                "the trajectories were pinned by a reader other than the collector's",
            ));
        }
        if !batch.belongs_to(&shared.ring) {
            return Err(Error::invalid("the batch belongs to another collector"));
        }
        check_rows(pinned, steps, shared.options.rows)
    }
}

/// Checks that a batch of at most `most` rows can have these trajectories, at these steps.
pub(crate) fn check_rows(pinned: &Pinned, steps: &[u64], most: u64) -> Result<()> {
    let rows = pinned.rows().len();
    if wide(rows) > most {
        return Err(Error::invalid(format!("got {rows} trajectories; a batch can have at most {most} rows")));
    }
    if steps.len() != rows {
        return Err(Error::invalid(format!(
            "got {} steps for {rows} trajectories; pass one for each",
            steps.len()
        )));
    }
    let beyond = pinned.rows().iter().zip(steps).find(|(row, step)| **step > row.length);
    if let Some((row, step)) = beyond {
        return Err(Error::invalid(format!(
            "step {step} of trajectory {}, which has {} steps; a step must be from 0 to that number",
            row.index, row.length
        )));
    }
    Ok(())
}
