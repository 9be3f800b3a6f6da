//! Batches, and the ring of memory that holds them.
#![expect(unsafe_code, reason = "a batch's memory becomes slices here; each block says why it is sound")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use relive_tensor::DType;

use super::plan::{BatchPlan, RowPlan};
use crate::bytes::narrow;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::mapping::Mapping;
use crate::metrics::Metrics;
use crate::schema::Schema;
use crate::store::Trajectory;

/// Memory for several batches, reused cyclically.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) plan: BatchPlan,
    pub(super) schema: Schema,
    memory: Mutex<Available>,
    returned: Condvar,
    /// The maximum number of batches.
    count: usize,
}

/// The memory that no batch uses. It is created when it is first needed, because a batch can be large, and most rings
/// never use all of their batches at the same time.
#[derive(Debug)]
struct Available {
    free: Vec<Memory>,
    /// The number of batches whose memory exists, in use or not.
    created: usize,
}

/// The memory in which a batch is built, and which a later batch reuses.
#[derive(Debug)]
struct Memory {
    bytes: Mapping,
    rows: Vec<Trajectory>,
    plans: Vec<RowPlan>,
    valid: Vec<u32>,
}

/// Rows copied from the columns of a store. Dropping the batch returns its memory for reuse. To share a batch, put it
/// into an `Arc`.
#[derive(Debug)]
pub struct Batch {
    ring: Arc<Ring>,
    /// `None` once it has been returned for reuse.
    memory: Option<Memory>,
}

/// A column of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchColumn<'a> {
    /// The column that the window reads.
    pub name: &'a str,
    /// The type of its elements.
    pub dtype: DType,
    /// All rows, contiguous.
    pub bytes: &'a [u8],
    /// For each row, the number of the window's steps that exist; the other steps are padding.
    pub valid: &'a [u32],
}

impl Ring {
    pub(super) fn new(plan: BatchPlan, schema: Schema, count: usize) -> Result<Arc<Self>> {
        if count == 0 {
            return Err(Error::invalid(
                "a ring needs at least 1 batch; with 2, one is used while the next is created",
            ));
        }
        // The first batch exists from the start, so that a batch for which there is no memory is refused here.
        let memory = Mutex::new(Available { free: vec![Memory::new(&plan)?], created: 1 });
        Ok(Arc::new(Self { plan, schema, memory, returned: Condvar::new(), count }))
    }

    /// Waits until there is an unused batch, and returns its memory.
    pub(super) fn take(self: &Arc<Self>, patience: Duration, metrics: &Metrics) -> Result<Batch> {
        let mut memory = self.memory.lock();
        let is_full = |memory: &Available| memory.free.is_empty() && memory.created == self.count;
        if is_full(&memory) {
            let begin = Instant::now();
            self.returned.wait_while_for(&mut memory, |memory| is_full(memory), patience);
            metrics.waited(begin.elapsed());
        }
        if let Some(taken) = memory.free.pop() {
            return Ok(self.batch(taken));
        }
        if memory.created < self.count {
            memory.created += 1;
            drop(memory);
            return self.create();
        }
        Err(Error::unavailable(format!(
            "all {} batches were in use for {patience:?}; drop some, or create a larger ring",
            self.count
        )))
    }

    /// Creates the memory of another batch, which the caller has counted.
    fn create(self: &Arc<Self>) -> Result<Batch> {
        let created = Memory::new(&self.plan).map_err(|error| {
            self.memory.lock().created -= 1;
            self.returned.notify_one();
            // `Unavailable` would mean that a connection to another store was lost.
            Error::new(ErrorKind::System, error.to_string())
        })?;
        Ok(self.batch(created))
    }

    fn batch(self: &Arc<Self>, memory: Memory) -> Batch {
        Batch { ring: Arc::clone(self), memory: Some(memory) }
    }

    #[cfg(test)]
    pub(super) fn created(&self) -> usize {
        self.memory.lock().created
    }
}

impl Memory {
    fn new(plan: &BatchPlan) -> Result<Self> {
        let rows = narrow(plan.rows);
        let bytes = Mapping::private(plan.bytes, "a batch")?;
        bytes.advise_huge();
        bytes.touch(1, None, "a batch")?;
        Ok(Self {
            bytes,
            rows: Vec::with_capacity(rows),
            plans: Vec::with_capacity(rows),
            valid: vec![0; rows * plan.columns.len()],
        })
    }
}

impl Batch {
    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("there until it is dropped")
    }

    /// Returns the trajectories of the batch's rows.
    #[must_use]
    pub fn rows(&self) -> &[Trajectory] {
        &self.memory().rows
    }

    /// Returns the number of columns, one per window.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.ring.plan.columns.len()
    }

    /// Returns the column of a window.
    ///
    /// # Errors
    /// The window does not exist.
    pub fn column(&self, window: usize) -> Result<BatchColumn<'_>> {
        let Some(plan) = self.ring.plan.columns.get(window) else {
            let columns = self.columns();
            return Err(Error::not_found(format!("there is no window {window}; there are {columns}")));
        };
        let memory = self.memory();
        let rows = memory.rows.len();
        let bytes = rows * narrow(plan.length * plan.output_step_bytes);
        let start = memory.bytes.start().wrapping_add(narrow(plan.output_at));
        // SAFETY: the plan is within the memory, all of whose bytes are initialized (to zeros at first). The batch is
        // borrowed, so nothing writes to it.
        let bytes = unsafe { std::slice::from_raw_parts(start, bytes) };
        let valid = window * narrow(self.ring.plan.rows);
        Ok(BatchColumn {
            name: &self.ring.schema.columns()[plan.column].name,
            dtype: plan.dtype,
            bytes,
            valid: &memory.valid[valid..valid + rows],
        })
    }

    /// Returns the bytes of a window's column, for modification.
    ///
    /// # Errors
    /// The window does not exist.
    pub fn bytes_mut(&mut self, window: usize) -> Result<&mut [u8]> {
        let len = self.column(window)?.bytes.len();
        let start =
            self.memory().bytes.start().wrapping_add(narrow(self.ring.plan.columns[window].output_at));
        // SAFETY: as in `column`; the batch is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Returns the shape of a window's column: rows, steps, and the shape of a step.
    ///
    /// # Errors
    /// The window does not exist.
    pub fn shape(&self, window: usize) -> Result<Vec<u64>> {
        self.column(window)?;
        Ok(self.ring.plan.shape(&self.ring.schema, window, self.rows().len() as u64))
    }

    /// Returns the parts that a collection writes: plans of rows, trajectories, valid steps, and the start of the
    /// bytes.
    pub(super) fn parts(&mut self) -> (&mut Vec<RowPlan>, &mut Vec<Trajectory>, &mut [u32], *mut u8) {
        let memory = self.memory.as_mut().expect("there until it is dropped");
        (&mut memory.plans, &mut memory.rows, &mut memory.valid, memory.bytes.start())
    }

    pub(super) fn belongs_to(&self, ring: &Arc<Ring>) -> bool {
        Arc::ptr_eq(&self.ring, ring)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.ring.memory.lock().free.push(memory);
            self.ring.returned.notify_one();
        }
    }
}
