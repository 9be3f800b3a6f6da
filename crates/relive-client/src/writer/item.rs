//! Items on their way to a table.

use std::collections::HashSet;
use std::sync::Arc;

use relive_tensor::Nest;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column as ColumnMessage};
use relive_wire::reverb::{FlatTrajectory, PrioritizedItem};
use smallvec::SmallVec;

use super::slot::ChunkSlot;
use crate::history::{Cell, Column};

/// More chunks than this are looked up in a map instead of one after the other.
const LINEAR_LOOKUP_CHUNKS: usize = 16;

/// Bytes of an item's message without its slices, roughly: what counts against the size of a request.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// Bytes of one slice in an item's message, roughly.
const SLICE_BYTES: usize = 24;

/// The columns of an item, flattened. Made from one column, an array or vector of columns, or a nest of them.
#[derive(Debug, Clone)]
pub struct TrajectoryColumns(SmallVec<[Column; 2]>);

impl TrajectoryColumns {
    pub(crate) fn columns(&self) -> &[Column] {
        &self.0
    }
}

impl From<Column> for TrajectoryColumns {
    fn from(column: Column) -> TrajectoryColumns {
        TrajectoryColumns(std::iter::once(column).collect())
    }
}

impl From<Vec<Column>> for TrajectoryColumns {
    fn from(columns: Vec<Column>) -> TrajectoryColumns {
        TrajectoryColumns(columns.into())
    }
}

impl<const N: usize> From<[Column; N]> for TrajectoryColumns {
    fn from(columns: [Column; N]) -> TrajectoryColumns {
        TrajectoryColumns(columns.into_iter().collect())
    }
}

impl From<Nest<Column>> for TrajectoryColumns {
    fn from(columns: Nest<Column>) -> TrajectoryColumns {
        TrajectoryColumns(columns.leaves().cloned().collect())
    }
}

/// An item with the chunks it refers to, kept until the server confirms it.
#[derive(Debug)]
pub(crate) struct PendingItem {
    pub(crate) key: u64,
    pub(crate) table: Arc<str>,
    pub(crate) priority: f64,
    columns: SmallVec<[ColumnEnd; 2]>,
    slices: SmallVec<[CellRun; 2]>,
    chunks: SmallVec<[Arc<ChunkSlot>; 2]>,
}

/// Where a column ends in the list of slices.
#[derive(Debug)]
struct ColumnEnd {
    slices_end: usize,
    squeeze: bool,
}

/// Rows of a chunk that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellRun {
    chunk_key: u64,
    offset: u32,
    length: u32,
}

impl PendingItem {
    pub(crate) fn new(key: u64, table: Arc<str>, priority: f64, columns: &[Column]) -> PendingItem {
        let mut item = PendingItem {
            key,
            table,
            priority,
            columns: SmallVec::new(),
            slices: SmallVec::new(),
            chunks: SmallVec::new(),
        };
        let mut known = ChunkLookup::default();
        for column in columns {
            item.add_column(column, &mut known);
        }
        item
    }

    fn add_column(&mut self, column: &Column, known: &mut ChunkLookup) {
        let first = self.slices.len();
        for cell in column.cells() {
            known.add(&mut self.chunks, cell);
            let run = CellRun { chunk_key: cell.chunk.key(), offset: cell.offset, length: 1 };
            match self.slices.get_mut(first..).and_then(<[CellRun]>::last_mut) {
                Some(last) if last.continues_with(run) => last.length += 1,
                Some(_) | None => self.slices.push(run),
            }
        }
        self.columns.push(ColumnEnd { slices_end: self.slices.len(), squeeze: column.is_squeezed() });
    }

    /// The distinct chunks, in the order of their first use.
    pub(crate) fn chunks(&self) -> &[Arc<ChunkSlot>] {
        &self.chunks
    }

    /// Whether all chunks are cut, so that the item can be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.encoded().is_some())
    }

    /// Bytes of the item's own message, without its chunks; an estimate.
    pub(crate) fn message_bytes(&self) -> usize {
        ITEM_OVERHEAD_BYTES + self.table.len() + SLICE_BYTES * self.slices.len()
    }

    /// Bytes of the item with those of its chunks that are cut, sent before or not.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(|chunk| chunk.encoded());
        self.message_bytes() + chunks.map(bytes::Bytes::len).sum::<usize>()
    }

    pub(crate) fn to_message(&self) -> PrioritizedItem {
        let mut start = 0;
        let columns = self.columns.iter().map(|column| {
            let slices = self.slices.get(start..column.slices_end).unwrap_or_default();
            start = column.slices_end;
            let chunk_slices = slices.iter().map(|run| run.to_message()).collect();
            ColumnMessage { chunk_slices, squeeze: column.squeeze }
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

impl CellRun {
    /// Whether `next` is the row right after this run. Rows of one chunk with a gap between them, or in another order,
    /// are runs of their own: a slice has no stride.
    fn continues_with(self, next: CellRun) -> bool {
        self.chunk_key == next.chunk_key && self.offset + self.length == next.offset
    }

    fn to_message(self) -> ChunkSlice {
        let narrow = |rows: u32| i32::try_from(rows).unwrap_or(i32::MAX);
        ChunkSlice {
            chunk_key: self.chunk_key,
            offset: narrow(self.offset),
            length: narrow(self.length),
            index: 0,
        }
    }
}

/// Finds out whether a chunk is in the list already.
#[derive(Default)]
struct ChunkLookup {
    keys: HashSet<u64>,
}

impl ChunkLookup {
    fn add(&mut self, chunks: &mut SmallVec<[Arc<ChunkSlot>; 2]>, cell: &Cell) {
        let slot = cell.chunk.slot();
        let same = |other: &Arc<ChunkSlot>| Arc::ptr_eq(other, slot);
        if chunks.last().is_some_and(same) {
            return;
        }
        let is_new = if chunks.len() < LINEAR_LOOKUP_CHUNKS {
            !chunks.iter().any(same)
        } else {
            if self.keys.is_empty() {
                self.keys.extend(chunks.iter().map(|chunk| chunk.key()));
            }
            self.keys.insert(slot.key())
        };
        if is_new {
            chunks.push(Arc::clone(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use relive_tensor::{Chunk, ChunkLength, Tensor};

    use super::*;
    use crate::history::{ColumnHistory, History};
    use crate::writer::Recorder;

    /// What a caller may ask of a column of `len` steps.
    #[derive(Debug, Clone)]
    enum Ask {
        Rows(Vec<i64>),
        Strided(i64, i64, usize),
        Step(i64),
    }

    impl Ask {
        fn of(&self, column: &ColumnHistory<'_>) -> crate::Result<Column> {
            match self {
                Ask::Rows(rows) => column.rows(rows),
                Ask::Strided(start, stop, stride) => column.strided(*start..*stop, *stride),
                Ask::Step(step) => column.step(*step),
            }
        }

        /// The naive model: positions of a list of `len` values, none if one of them is not kept.
        fn expected(&self, len: i64, kept: i64) -> Option<Vec<i64>> {
            let absolute = |at: i64| if at < 0 { at + len } else { at };
            let positions: Vec<i64> = match self {
                Ask::Rows(rows) => rows.iter().map(|&at| absolute(at)).collect(),
                Ask::Strided(start, stop, stride) => {
                    let inside = |at: i64| (0..=len).contains(&absolute(at));
                    if !inside(*start) || !inside(*stop) {
                        return None;
                    }
                    (absolute(*start)..absolute(*stop)).step_by(*stride).collect()
                }
                Ask::Step(step) => vec![absolute(*step)],
            };
            let good = |at: &i64| (0..len).contains(at) && *at >= len - kept;
            (!positions.is_empty() && positions.iter().all(good)).then_some(positions)
        }
    }

    fn asks(len: i64) -> impl Strategy<Value = Ask> {
        let at = -len - 2..len + 2;
        prop_oneof![
            prop::collection::vec(at.clone(), 0..12).prop_map(Ask::Rows),
            (at.clone(), at.clone(), 1..5_usize)
                .prop_map(|(start, stop, stride)| Ask::Strided(start, stop, stride)),
            at.prop_map(Ask::Step),
        ]
    }

    fn recorder(chunk_length: u32, keep: u32) -> Recorder {
        let length = ChunkLength::constant(chunk_length, keep).unwrap();
        let mut recorder = Recorder::new(length, Xoshiro256PlusPlus::seed_from_u64(1));
        recorder.add_columns(&[Arc::from("x")]).unwrap();
        recorder
    }

    /// What a reader of the item gets for its only column.
    fn read(item: &PendingItem) -> Tensor {
        let chunks: Vec<Arc<Chunk>> = item
            .chunks()
            .iter()
            .map(|slot| Arc::new(relive_wire::chunk::decode(slot.encoded().unwrap()).unwrap()))
            .collect();
        let message = item.to_message();
        let find = |key| chunks.iter().find(|chunk| chunk.key() == key).cloned();
        let trajectory = relive_wire::item::decode(&message, find).unwrap().trajectory;
        trajectory.decode().unwrap().remove(0)
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_asked_for(
            (len, chunk_length, keep, ask) in (1..20_i64, 1..6_u32, 0..12_u32).prop_flat_map(|(len, chunk, more)| {
                (Just(len), Just(chunk), Just(chunk + more), asks(len))
            })
        ) {
            let mut recorder = recorder(chunk_length, keep);
            for value in 0..len {
                recorder.append(&[(0, &Tensor::scalar(value))], false).unwrap();
            }
            let column = ask.of(&History::new(&recorder).column("x").unwrap());
            let expected = ask.expected(len, i64::from(keep));
            prop_assert_eq!(column.is_ok(), expected.is_some(), "{:?}", column);
            if let (Ok(column), Some(expected)) = (column, expected) {
                let squeezed = column.is_squeezed();
                let item = PendingItem::new(1, Arc::from("t"), 1.0, &[column]);
                recorder.finish_all().unwrap();
                let read = read(&item);
                prop_assert_eq!(read.shape().rank(), usize::from(!squeezed));
                prop_assert_eq!(read.to_vec::<i64>().unwrap(), expected);
            }
        }
    }

    #[test]
    fn only_rows_that_follow_each_other_share_a_slice() {
        let mut recorder = recorder(4, 8);
        for value in 0..8_i64 {
            recorder.append(&[(0, &Tensor::scalar(value))], false).unwrap();
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
