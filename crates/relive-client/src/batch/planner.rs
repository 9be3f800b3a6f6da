//! Makes the plan of a batch, sample by sample.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::sync::Arc;

use relive_tensor::{ChunkError, DType, Shape, Trajectory};
use relive_wire::chunk::{self, ChunkOutline};
use relive_wire::sample::{ReceivedSample, ReceivedSlice, TrajectoryLayout};

use super::keys::KeyHasher;
use super::plan::{Block, MessageBlock, Part, Plan, PlannedColumn, PlannedSlice};
use crate::sampler::SampleData;
use crate::{Error, ErrorKind, Result, Sample};

/// A plan under construction.
#[derive(Default)]
pub(super) struct Planner {
    plan: Plan,
    /// Blocks by the identity of their chunk and their number in it.
    known: HashMap<(u64, u32), usize, BuildHasherDefault<KeyHasher>>,
    /// Read into once per sample.
    layout: TrajectoryLayout,
    /// Rows of each block.
    rows: Vec<u32>,
}

/// A column of the sample at hand, as far as it was looked at.
struct Draft {
    column: usize,
    squeeze: bool,
    rows: u32,
}

impl Planner {
    /// The plan of `samples`.
    ///
    /// # Errors
    /// `DataLoss` for a sample that cannot be read; `InvalidArgument` if samples differ in the number, type or shape of
    /// their columns other than in their number of rows.
    pub(super) fn plan(samples: &[Sample]) -> Result<Plan> {
        let mut planner = Planner::default();
        planner.known.reserve(samples.len());
        for (number, sample) in samples.iter().enumerate() {
            if number % STAGE == 0 {
                touch(samples.get(number..).unwrap_or_default());
            }
            let columns = match sample.data() {
                SampleData::Stored { item, .. } => planner.add_stored(number, sample, &item.trajectory)?,
                SampleData::Received(received) => planner.add_received(number, sample, received)?,
                SampleData::Arrived { .. } => planner.add_unpacked(sample)?,
            };
            if number > 0 && columns != planner.plan.columns.len() {
                return Err(differs(
                    sample,
                    None,
                    &columns_text(planner.plan.columns.len()),
                    &columns_text(columns),
                ));
            }
        }
        Ok(planner.plan)
    }

    /// Adds a sample of a table of this process, whose trajectory was checked when it was made. Tells how many columns
    /// it has.
    fn add_stored(&mut self, number: usize, sample: &Sample, trajectory: &Trajectory) -> Result<usize> {
        for (column, view) in trajectory.columns().enumerate() {
            let mut draft = Draft { column, squeeze: view.squeeze(), rows: 0 };
            for slice in view.slices() {
                let chunk = usize::try_from(slice.chunk).unwrap_or(usize::MAX);
                let index = usize::try_from(slice.index).unwrap_or(usize::MAX);
                let Some(stored) = trajectory.chunks().get(chunk) else { continue };
                let Some(header) = stored.column(index) else { continue };
                let identity = Arc::as_ptr(stored).addr() as u64;
                let block = match self.known.entry((identity, slice.index)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(vacant) => {
                        self.plan.blocks.push(Block::Stored { sample: number, chunk, column: index });
                        self.rows.push(header.rows());
                        *vacant.insert(self.plan.blocks.len() - 1)
                    }
                };
                self.agree(sample, &draft, header.dtype, header.cell_dims())?;
                self.plan.slices.push(PlannedSlice { block, offset: slice.offset, length: slice.length });
                draft.rows = draft.rows.saturating_add(slice.length);
            }
            self.finish(sample, &draft)?;
        }
        Ok(trajectory.num_columns())
    }

    /// Adds a sample that was taken out of another batch.
    fn add_unpacked(&mut self, sample: &Sample) -> Result<usize> {
        let trajectory = sample.trajectory()?;
        for (column, view) in trajectory.columns().enumerate() {
            let mut draft = Draft { column, squeeze: view.squeeze(), rows: 0 };
            for slice in view.slices() {
                let Some(chunk) = view.chunk_of(slice) else { continue };
                self.plan
                    .blocks
                    .push(Block::Owned { chunk: Arc::clone(chunk), column: slice.index as usize });
                self.rows.push(slice.length);
                self.agree(sample, &draft, view.dtype(), view.cell_shape())?;
                let block = self.plan.blocks.len() - 1;
                self.plan.slices.push(PlannedSlice { block, offset: slice.offset, length: slice.length });
                draft.rows = draft.rows.saturating_add(slice.length);
            }
            self.finish(sample, &draft)?;
        }
        Ok(trajectory.num_columns())
    }

    fn add_received(&mut self, number: usize, sample: &Sample, received: &ReceivedSample) -> Result<usize> {
        for (place, message) in received.chunks() {
            let outline = chunk::outline(message).map_err(|error| sample.damaged(error))?;
            if outline.lists_strings {
                self.add_owned(sample, message)?;
            } else {
                self.add_blocks(number, sample, received, (place, outline))?;
            }
        }
        let mut layout = std::mem::take(&mut self.layout);
        received.read_layout(&mut layout).map_err(|error| sample.damaged(error))?;
        for (column, described) in layout.columns().enumerate() {
            let mut draft = Draft { column, squeeze: described.squeeze, rows: 0 };
            for slice in described.slices {
                let slice =
                    slice.checked(sample.info().key, column).map_err(|error| sample.damaged(error))?;
                self.add_slice(sample, &mut draft, slice)?;
            }
            self.finish(sample, &draft)?;
        }
        let columns = layout.columns().len();
        self.layout = layout;
        Ok(columns)
    }

    /// Adds the tensors of a chunk message that no sample before this one had.
    fn add_blocks(
        &mut self,
        sample_number: usize,
        sample: &Sample,
        received: &ReceivedSample,
        (place, outline): (relive_wire::sample::Place, ChunkOutline),
    ) -> Result<()> {
        let ChunkOutline { key, delta_encoded, columns, .. } = outline;
        for (header, index) in columns.into_iter().zip(0..) {
            let Entry::Vacant(vacant) = self.known.entry((key, index)) else { continue };
            let place = place.part(&header.span);
            let rows = header.rows();
            let block = MessageBlock { sample: sample_number, place, header, delta_encoded };
            block.tensor(received.at(&place)).check().map_err(|fault| {
                let column = usize::try_from(index).ok();
                sample.damaged(ChunkError { key, column, fault })
            })?;
            self.plan.blocks.push(Block::Message(self.plan.messages.len()));
            self.plan.messages.push(block);
            self.rows.push(rows);
            vacant.insert(self.plan.blocks.len() - 1);
        }
        Ok(())
    }

    /// Adds the tensors of a chunk that cannot be read where it lies.
    fn add_owned(&mut self, sample: &Sample, message: &[u8]) -> Result<()> {
        let chunk = Arc::new(chunk::decode(message).map_err(|error| sample.damaged(error))?);
        for (column, index) in (0..chunk.num_columns()).zip(0..) {
            let Entry::Vacant(vacant) = self.known.entry((chunk.key(), index)) else { continue };
            self.plan.blocks.push(Block::Owned { chunk: Arc::clone(&chunk), column });
            self.rows.push(chunk.rows(column).unwrap_or(0));
            vacant.insert(self.plan.blocks.len() - 1);
        }
        Ok(())
    }

    /// Adds a slice as a message describes it.
    fn add_slice(&mut self, sample: &Sample, draft: &mut Draft, slice: ReceivedSlice<u32>) -> Result<()> {
        let ReceivedSlice { chunk_key, offset, length, index } = slice;
        let Some(&block) = self.known.get(&(chunk_key, index)) else {
            return Err(broken(
                sample,
                draft.column,
                &format!("tensor {index} of chunk {chunk_key} did not come"),
            ));
        };
        let rows = self.rows.get(block).copied().unwrap_or(0);
        if length == 0 || offset.checked_add(length).is_none_or(|end| end > rows) {
            let what = format!("rows {offset} to {offset} + {length} of chunk {chunk_key}, which has {rows}");
            return Err(broken(sample, draft.column, &what));
        }
        let (dtype, shape) = match self.plan.blocks.get(block) {
            Some(Block::Message(message)) => match self.plan.messages.get(*message) {
                Some(MessageBlock { header, .. }) => (header.dtype, header.shape.clone()),
                None => return Ok(()),
            },
            Some(Block::Owned { chunk, column }) => match chunk.column(*column) {
                Some(header) => (header.dtype, header.shape.clone()),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.agree(sample, draft, dtype, shape.cell_dims())?;
        self.plan.slices.push(PlannedSlice { block, offset, length });
        let rows = draft.rows.checked_add(length);
        draft.rows = rows.ok_or_else(|| broken(sample, draft.column, "more than 2^32 rows"))?;
        Ok(())
    }

    /// Holds a slice to what the column is in the samples before.
    fn agree(&mut self, sample: &Sample, draft: &Draft, dtype: DType, cell: &[u32]) -> Result<()> {
        let Some(first) = self.plan.columns.get(draft.column) else {
            if self.plan.parts.len() != self.plan.columns.len() {
                // A column that the first sample does not have; its number of columns tells.
                let columns = sample.num_columns();
                return Err(differs(
                    sample,
                    None,
                    &columns_text(self.plan.columns.len()),
                    &columns_text(columns),
                ));
            }
            let cell_shape = Shape::from(cell);
            self.plan.columns.push(PlannedColumn { dtype, squeeze: draft.squeeze, cell_shape });
            return Ok(());
        };
        if first.dtype == dtype && first.cell_shape.dims() == cell && first.squeeze == draft.squeeze {
            return Ok(());
        }
        let expected = describe(first.dtype, first.squeeze, first.cell_shape.dims());
        Err(differs(sample, Some(draft.column), &expected, &describe(dtype, draft.squeeze, cell)))
    }

    fn finish(&mut self, sample: &Sample, draft: &Draft) -> Result<()> {
        if draft.rows == 0 {
            return Err(broken(sample, draft.column, "no rows"));
        }
        if draft.squeeze && draft.rows != 1 {
            return Err(broken(sample, draft.column, &format!("{} rows and is squeezed", draft.rows)));
        }
        self.plan.parts.push(Part { slices_end: self.plan.slices.len(), rows: draft.rows });
        Ok(())
    }
}

/// Samples that are looked at side by side.
const STAGE: usize = 32;

/// Brings the chunks of the next samples near, as [`gather`](super::gather) does with their payloads.
fn touch(samples: &[Sample]) {
    for sample in samples.iter().take(STAGE) {
        if let SampleData::Stored { item, .. } = sample.data() {
            let Some(chunk) = item.trajectory.chunks().first() else { continue };
            // A chunk's fields take two lines of memory.
            black_box((chunk.num_columns(), chunk.key(), chunk.size_bytes()));
        }
    }
}

fn broken(sample: &Sample, column: usize, what: &str) -> Error {
    let (key, table) = (sample.info().key, sample.table());
    let text = format!("item {key} of table {table:?} cannot be decoded: column {column} has {what}");
    Error::new(ErrorKind::DataLoss, text)
}

fn differs(sample: &Sample, column: Option<usize>, expected: &str, got: &str) -> Error {
    let (key, table) = (sample.info().key, sample.table());
    let of = column.map_or_else(String::new, |column| format!(" in column {column}"));
    Error::invalid(format!(
        "the samples of a batch differ{of}: item {key} of table {table:?} has {got}, those before have {expected}"
    ))
}

fn columns_text(columns: usize) -> String {
    format!("{columns} columns")
}

fn describe(dtype: DType, squeeze: bool, cell: &[u32]) -> String {
    let shape = Shape::from(cell);
    if squeeze { format!("{dtype}{shape}") } else { format!("rows of {dtype}{shape}") }
}
