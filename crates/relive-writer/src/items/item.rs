//! Items that will be sent or inserted.

use std::collections::HashMap;
use std::sync::Arc;

use relive_connection::{Error, ErrorKind, Result};
use relive_table::NewItem;
use relive_tensor::{Nest, Slice, TrajectoryBuilder};
use relive_wire::item_run::RunSlice;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column as ColumnMessage};
use relive_wire::reverb::{FlatTrajectory, PrioritizedItem};
use relive_wire::v1::ItemRun;
use smallvec::SmallVec;

use crate::chunks::{ChunkRef, ChunkSlot};
use crate::columns::Column;

/// The number of chunks above which they are looked up in a map instead of linearly.
const LINEAR_LOOKUP_CHUNKS: usize = 16;

/// The approximate size of an item's message without its slices, in bytes. It counts toward the size of a request.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// The approximate size of one slice in an item's message, in bytes.
const SLICE_BYTES: usize = 24;

/// The columns of an item, flattened. Converts from one column, an array or vector of columns, or a nest of columns.
///
/// If a table has no signature, the first item that a client creates from a nest names the table's columns; see
/// `Client::column_names`.
#[derive(Debug, Clone)]
pub struct TrajectoryColumns {
    columns: SmallVec<[Column; 2]>,
    /// The nest of the columns.
    nest: Option<Box<Nest<Column>>>,
}

impl TrajectoryColumns {
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the columns in their structure, or `None` for a plain list.
    pub(crate) fn nest(&self) -> Option<&Nest<Column>> {
        self.nest.as_deref()
    }

    fn plain(columns: SmallVec<[Column; 2]>) -> TrajectoryColumns {
        TrajectoryColumns { columns, nest: None }
    }
}

impl From<Column> for TrajectoryColumns {
    fn from(column: Column) -> TrajectoryColumns {
        TrajectoryColumns::plain(std::iter::once(column).collect())
    }
}

impl From<Vec<Column>> for TrajectoryColumns {
    fn from(columns: Vec<Column>) -> TrajectoryColumns {
        TrajectoryColumns::plain(columns.into())
    }
}

impl<const N: usize> From<[Column; N]> for TrajectoryColumns {
    fn from(columns: [Column; N]) -> TrajectoryColumns {
        TrajectoryColumns::plain(columns.into_iter().collect())
    }
}

impl From<&[Column]> for TrajectoryColumns {
    fn from(columns: &[Column]) -> TrajectoryColumns {
        TrajectoryColumns::plain(columns.iter().cloned().collect())
    }
}

impl From<&TrajectoryColumns> for TrajectoryColumns {
    fn from(columns: &TrajectoryColumns) -> TrajectoryColumns {
        columns.clone()
    }
}

impl From<Nest<Column>> for TrajectoryColumns {
    fn from(columns: Nest<Column>) -> TrajectoryColumns {
        TrajectoryColumns { columns: columns.leaves().cloned().collect(), nest: Some(Box::new(columns)) }
    }
}

/// An item with the chunks to which it refers, kept until the server confirms it.
#[derive(Debug)]
pub(crate) struct PendingItem {
    pub(crate) key: u64,
    pub(crate) table: Arc<str>,
    pub(crate) priority: f64,
    columns: SmallVec<[ColumnEnd; 2]>,
    slices: SmallVec<[CellRun; 2]>,
    chunks: SmallVec<[Arc<ChunkSlot>; 2]>,
}

/// The end of a column in the list of slices.
#[derive(Debug)]
struct ColumnEnd {
    slices_end: usize,
    squeeze: bool,
}

/// Consecutive rows of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellRun {
    /// The position in the item's list of chunks.
    chunk: u32,
    /// The index of the tensor in the chunk.
    index: u32,
    offset: u32,
    length: u32,
}

impl PendingItem {
    pub(crate) fn new(key: u64, table: Arc<str>, priority: f64, columns: &[Column]) -> PendingItem {
        let mut draft = ItemDraft::new(key, table, priority, columns.len());
        for column in columns {
            column.runs().iter().for_each(|run| draft.add_run(&run.chunk, run.offset, run.length));
            draft.end_column(column.is_squeezed());
        }
        draft.finish()
    }

    /// Returns the distinct chunks, in the order of first use.
    pub(crate) fn chunks(&self) -> &[Arc<ChunkSlot>] {
        &self.chunks
    }

    /// Returns whether all chunks have been cut, so that the item can be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.is_cut())
    }

    /// Estimates the size of the item's own message without its chunks, in bytes.
    pub(crate) fn message_bytes(&self) -> usize {
        ITEM_OVERHEAD_BYTES + self.table.len() + SLICE_BYTES * self.slices.len()
    }

    /// Returns the number of bytes in the item and in its cut chunks, whether or not these have been sent.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.message_bytes() + self.chunks.iter().map(|chunk| chunk.size_bytes()).sum::<usize>()
    }

    /// Returns the slices of each column, and whether it is squeezed.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&[CellRun], bool)> {
        let mut start = 0;
        self.columns.iter().map(move |column| {
            let slices = self.slices.get(start..column.slices_end).unwrap_or_default();
            start = column.slices_end;
            (slices, column.squeeze)
        })
    }

    /// Adds the item to a run of items with the same table and columns.
    pub(crate) fn add_to(&self, run: &mut ItemRun) {
        run.begin_item(self.key, self.priority);
        for (slices, _) in self.columns() {
            run.push_column(slices.iter().map(|slice| slice.to_run_slice(&self.chunks)));
        }
    }

    pub(crate) fn to_message(&self) -> PrioritizedItem {
        let columns = self.columns().map(|(slices, squeeze)| {
            let chunk_slices = slices.iter().map(|slice| slice.to_message(&self.chunks)).collect();
            ColumnMessage { chunk_slices, squeeze }
        });
        PrioritizedItem {
            key: self.key,
            table: (*self.table).to_owned(),
            priority: self.priority,
            flat_trajectory: Some(FlatTrajectory { columns: columns.collect() }),
            ..PrioritizedItem::default()
        }
    }
}

/// Returns the distinct chunks of `items` that have not been cut.
pub(crate) fn uncut_chunks<'a>(items: impl Iterator<Item = &'a PendingItem>) -> Vec<Arc<ChunkSlot>> {
    let mut uncut: Vec<Arc<ChunkSlot>> = Vec::new();
    for chunk in items.flat_map(PendingItem::chunks).filter(|chunk| !chunk.is_cut()) {
        if !uncut.iter().any(|known| Arc::ptr_eq(known, chunk)) {
            uncut.push(Arc::clone(chunk));
        }
    }
    uncut
}

impl PendingItem {
    /// Builds the item for a table in this process. `builder` reuses state from earlier items. All chunks must be cut
    /// and shared.
    pub(crate) fn to_new_item(&self, builder: &mut TrajectoryBuilder) -> Result<NewItem> {
        builder.clear();
        for chunk in &self.chunks {
            let chunk = chunk
                .shared()
                .ok_or_else(|| Error::invalid("the item is waiting until its chunk is complete"))?;
            builder.chunk(Arc::clone(chunk));
        }
        for (slices, squeeze) in self.columns() {
            builder.begin_column(squeeze);
            for &CellRun { chunk, index, offset, length } in slices {
                builder.slice(Slice { chunk, offset, length, index });
            }
        }
        let trajectory = builder.build().map_err(|error| {
            let text = format!("create_item: item {} for table {:?}: {error}", self.key, self.table);
            Error::with_source(ErrorKind::InvalidArgument, text, error)
        })?;
        Ok(NewItem { key: self.key, priority: self.priority, times_sampled: 0, trajectory })
    }
}

impl CellRun {
    /// Returns whether `next` is the row right after this run. Rows that are not consecutive are separate runs, since a
    /// slice has no stride.
    fn continues_with(self, next: CellRun) -> bool {
        (self.chunk, self.index) == (next.chunk, next.index) && self.offset + self.length == next.offset
    }

    /// Converts the run, whose chunk must be one of `chunks`.
    fn to_run_slice(self, chunks: &[Arc<ChunkSlot>]) -> RunSlice {
        let chunk = usize::try_from(self.chunk).ok().and_then(|chunk| chunks.get(chunk));
        let CellRun { index, offset, length, .. } = self;
        RunSlice { chunk_key: chunk.map_or(0, |chunk| chunk.key()), index, offset, length }
    }

    fn to_message(self, chunks: &[Arc<ChunkSlot>]) -> ChunkSlice {
        let narrow = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        ChunkSlice {
            chunk_key: self.to_run_slice(chunks).chunk_key,
            offset: narrow(self.offset),
            length: narrow(self.length),
            index: narrow(self.index),
        }
    }
}

/// An item under construction, column by column.
pub(crate) struct ItemDraft {
    item: PendingItem,
    known: ChunkLookup,
}

impl ItemDraft {
    /// Returns a draft with room for this many columns of one slice each.
    pub(crate) fn new(key: u64, table: Arc<str>, priority: f64, columns: usize) -> ItemDraft {
        let (columns, slices) = (SmallVec::with_capacity(columns), SmallVec::with_capacity(columns));
        let chunks = SmallVec::new();
        let item = PendingItem { key, table, priority, columns, slices, chunks };
        ItemDraft { item, known: ChunkLookup::default() }
    }

    /// Adds rows of a chunk to the current column.
    pub(crate) fn add_run(&mut self, chunk: &ChunkRef, offset: u32, length: u32) {
        let index = chunk.index();
        let chunk = self.known.add(&mut self.item.chunks, chunk.slot());
        let run = CellRun { chunk, index, offset, length };
        let first = self.item.columns.last().map_or(0, |column| column.slices_end);
        match self.item.slices.get_mut(first..).and_then(<[CellRun]>::last_mut) {
            Some(last) if last.continues_with(run) => last.length += length,
            Some(_) | None => self.item.slices.push(run),
        }
    }

    pub(crate) fn end_column(&mut self, squeeze: bool) {
        self.item.columns.push(ColumnEnd { slices_end: self.item.slices.len(), squeeze });
    }

    pub(crate) fn finish(self) -> PendingItem {
        self.item
    }
}

/// Finds the position of a chunk in the list of chunks.
#[derive(Default)]
struct ChunkLookup {
    /// Positions by key, once there are many chunks.
    places: HashMap<u64, u32>,
}

impl ChunkLookup {
    fn add(&mut self, chunks: &mut SmallVec<[Arc<ChunkSlot>; 2]>, slot: &Arc<ChunkSlot>) -> u32 {
        let place = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let known = if chunks.len() <= LINEAR_LOOKUP_CHUNKS {
            // Searches from the end, because adjacent cells are mostly in the same chunk.
            chunks.iter().rposition(|other| Arc::ptr_eq(other, slot)).map(place)
        } else {
            if self.places.is_empty() {
                self.places.extend(chunks.iter().map(|chunk| chunk.key()).zip(0..));
            }
            self.places.get(&slot.key()).copied()
        };
        known.unwrap_or_else(|| {
            let new = place(chunks.len());
            if !self.places.is_empty() {
                self.places.insert(slot.key(), new);
            }
            chunks.push(Arc::clone(slot));
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use relive_tensor::{Chunk, ChunkLength, Rows, Tensor};

    use super::*;
    use crate::chunks::{ChunkForm, Encoder};
    use crate::columns::Recorder;
    use crate::history::{ColumnHistory, History};

    /// A request for steps from a column of `len` steps.
    #[derive(Debug, Clone)]
    enum StepSelection {
        Rows(Vec<i64>),
        Strided(i64, i64, usize),
        Step(i64),
    }

    impl StepSelection {
        fn of(&self, column: &ColumnHistory<'_>) -> Result<Column> {
            match self {
                StepSelection::Rows(rows) => column.rows(rows),
                StepSelection::Strided(start, stop, stride) => column.strided(*start..*stop, *stride),
                StepSelection::Step(step) => column.step(*step),
            }
        }

        /// Returns the result of the naive model: positions in a list of `len` values, or `None` if one of the values
        /// is not kept.
        fn expected(&self, len: i64, kept: i64) -> Option<Vec<i64>> {
            let absolute = |at: i64| if at < 0 { at + len } else { at };
            let positions: Vec<i64> = match self {
                StepSelection::Rows(rows) => rows.iter().map(|&at| absolute(at)).collect(),
                StepSelection::Strided(start, stop, stride) => {
                    let inside = |at: i64| (0..=len).contains(&absolute(at));
                    if !inside(*start) || !inside(*stop) {
                        return None;
                    }
                    (absolute(*start)..absolute(*stop)).step_by(*stride).collect()
                }
                StepSelection::Step(step) => vec![absolute(*step)],
            };
            let good = |at: &i64| (0..len).contains(at) && *at >= len - kept;
            (!positions.is_empty() && positions.iter().all(good)).then_some(positions)
        }
    }

    fn selections(len: i64) -> impl Strategy<Value = StepSelection> {
        let at = -len - 2..len + 2;
        prop_oneof![
            prop::collection::vec(at.clone(), 0..12).prop_map(StepSelection::Rows),
            (at.clone(), at.clone(), 1..5_usize)
                .prop_map(|(start, stop, stride)| StepSelection::Strided(start, stop, stride)),
            at.prop_map(StepSelection::Step),
        ]
    }

    fn recorder(chunk_length: u32, keep: u32) -> Recorder {
        let length = ChunkLength::constant(chunk_length, keep).unwrap();
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut recorder = Recorder::new(length, rng, Encoder::new(ChunkForm::Messages, None));
        recorder.add_columns(&[Arc::from("x")]).unwrap();
        recorder
    }

    /// Returns the data that a reader of the item receives for its only column.
    fn read(item: &PendingItem) -> Tensor {
        let chunks: Vec<Arc<Chunk>> = item
            .chunks()
            .iter()
            .map(|slot| Arc::new(relive_wire::chunk::decode(slot.message().unwrap()).unwrap()))
            .collect();
        let message = item.to_message();
        let find = |key| chunks.iter().find(|chunk| chunk.key() == key).cloned();
        let trajectory = relive_wire::item::decode(&message, find).unwrap().trajectory;
        trajectory.decode().unwrap().remove(0)
    }

    proptest! {
        #[test]
        fn items_read_back_the_requested_steps(
            (len, chunk_length, keep, ask) in (1..20_i64, 1..6_u32, 0..12_u32).prop_flat_map(|(len, chunk, more)| {
                (Just(len), Just(chunk), Just(chunk + more), selections(len))
            })
        ) {
            let mut recorder = recorder(chunk_length, keep);
            for value in 0..len {
                recorder.append(&[(0, Rows::step(&Tensor::scalar(value)))], false).unwrap();
            }
            let column = ask.of(&History::new(&recorder).column("x").unwrap());
            let expected = ask.expected(len, i64::from(keep));
            prop_assert_eq!(column.is_ok(), expected.is_some(), "{:?}", column);
            if let (Ok(column), Some(expected)) = (column, expected) {
                let squeezed = column.is_squeezed();
                let before = column.to_tensor().unwrap();
                let item = PendingItem::new(1, Arc::from("t"), 1.0, std::slice::from_ref(&column));
                recorder.finish_all().unwrap();
                let read = read(&item);
                prop_assert_eq!(&read, &before);
                prop_assert_eq!(&read, &column.to_tensor().unwrap());
                prop_assert_eq!(read.shape().rank(), usize::from(!squeezed));
                prop_assert_eq!(read.to_vec::<i64>().unwrap(), expected);
            }
        }
    }

    #[test]
    fn only_consecutive_rows_share_a_slice() {
        let mut recorder = recorder(4, 8);
        for value in 0..8_i64 {
            recorder.append(&[(0, Rows::step(&Tensor::scalar(value)))], false).unwrap();
        }
        let history = History::new(&recorder);
        let column = history.column("x").unwrap();
        let slices = |column| PendingItem::new(1, Arc::from("t"), 1.0, &[column]).slices.len();
        assert_eq!(slices(column.slice(0..8).unwrap()), 2);
        assert_eq!(slices(column.rows(&[0, 2]).unwrap()), 2);
        assert_eq!(slices(column.rows(&[2, 0]).unwrap()), 2);
        assert_eq!(slices(column.rows(&[3, 3]).unwrap()), 2);
        assert_eq!(slices(column.strided(0..8, 2).unwrap()), 4);
    }
}
