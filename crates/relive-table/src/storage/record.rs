//! An item in its table, and its layout.

use core::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use relive_prefetch::prefetch;
use relive_tensor::{Chunk, ColumnLayout, Row, RowLayout, Trajectory};

use crate::item::{ItemData, ItemView};
use crate::time::Timestamp;

/// The largest number of an item's chunks that are prefetched.
const PREFETCHED_CHUNKS: usize = 4;

/// The number of a layout in its table's [`Layouts`]. Meaningless for an item that is not a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayoutId(u32);

/// The number of a kind, which several layouts in [`Layouts`] share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindId(u32);

/// The distinct layouts of a table's rows. Items with the same columns are of one kind even if their layouts differ.
/// Layouts differ, for example, in the shorter chunk at the end of an episode, where the columns are closer together.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    known: Vec<KnownLayout>,
    kinds: Vec<Arc<[ColumnLayout]>>,
    by_content: HashTable<u32>,
    hasher: FixedState,
    /// The most recently found layout.
    last: LayoutId,
}

#[derive(Debug)]
struct KnownLayout {
    layout: RowLayout,
    kind: KindId,
    /// The number of records with this layout. If there are too many layouts, one without records is replaced.
    records: u32,
}

/// The largest number of layouts. Items with further layouts are not stored as rows. A table usually has one layout for
/// full chunks, and a few more for each other chunk length, such as that of the last chunk of an episode.
const MAX_LAYOUTS: usize = 1_024;

impl Layouts {
    /// Returns the kind of rows with the given columns.
    pub(crate) fn kind_of(&self, columns: &Arc<[ColumnLayout]>) -> Option<KindId> {
        let at = self.kinds.iter().position(|kind| Arc::ptr_eq(kind, columns) || kind == columns)?;
        u32::try_from(at).ok().map(KindId)
    }

    /// Returns the columns of the newest row.
    pub(crate) fn newest(&self) -> Option<&Arc<[ColumnLayout]>> {
        let known = self.known.get(self.last.0 as usize)?;
        self.kinds.get(known.kind.0 as usize)
    }

    pub(crate) fn get(&self, id: LayoutId) -> Option<(&RowLayout, KindId)> {
        self.known.get(id.0 as usize).map(|known| (&known.layout, known.kind))
    }

    /// Returns the item as a row, if the item is stored as one.
    fn row_of(&mut self, trajectory: &Trajectory) -> Option<(Row, LayoutId)> {
        let last = self.get(self.last).map(|(layout, _)| layout);
        let (row, other) = trajectory.row(last)?;
        if let Some(layout) = other {
            self.last = self.find(&layout).or_else(|| self.add(layout))?;
        }
        self.known.get_mut(self.last.0 as usize)?.records += 1;
        Some((row, self.last))
    }

    /// Updates the count of records with a layout after a record was removed.
    pub(crate) fn release(&mut self, record: &Record) {
        let known = record.row.as_ref().and_then(|_| self.known.get_mut(record.layout.0 as usize));
        if let Some(known) = known {
            known.records -= 1;
        }
    }

    fn find(&self, layout: &RowLayout) -> Option<LayoutId> {
        let is_it = |&at: &u32| self.known.get(at as usize).is_some_and(|known| known.layout == *layout);
        self.by_content.find(self.hasher.hash_one(layout), is_it).copied().map(LayoutId)
    }

    fn add(&mut self, layout: RowLayout) -> Option<LayoutId> {
        let vacant = if self.known.len() < MAX_LAYOUTS { None } else { Some(self.vacate()?) };
        let kind = self.kind_for(layout.columns().cloned().collect(), vacant)?;
        let hash = self.hasher.hash_one(&layout);
        let known = KnownLayout { layout, kind, records: 0 };
        let at = match vacant {
            Some(at) => {
                *self.known.get_mut(at as usize)? = known;
                at
            }
            None => {
                self.known.push(known);
                u32::try_from(self.known.len() - 1).ok()?
            }
        };
        let (known, hasher) = (&self.known, &self.hasher);
        self.by_content.insert_unique(hash, at, |&at| {
            known.get(at as usize).map_or(0, |known| hasher.hash_one(&known.layout))
        });
        Some(LayoutId(at))
    }

    /// Returns the position of a layout without records.
    fn vacate(&mut self) -> Option<u32> {
        let at = u32::try_from(self.known.iter().position(|known| known.records == 0)?).ok()?;
        let hash = self.hasher.hash_one(&self.known.get(at as usize)?.layout);
        if let Ok(found) = self.by_content.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        Some(at)
    }

    /// Returns the kind of these columns. A new kind replaces one that no layout uses, except perhaps the `vacant`
    /// layout.
    fn kind_for(&mut self, columns: Arc<[ColumnLayout]>, vacant: Option<u32>) -> Option<KindId> {
        if let Some(kind) = self.kind_of(&columns) {
            return Some(kind);
        }
        let id = |at: usize| u32::try_from(at).ok().map(KindId);
        if self.kinds.len() < MAX_LAYOUTS {
            self.kinds.push(columns);
            return id(self.kinds.len() - 1);
        }
        let layouts = || (0..).zip(&self.known).filter(|(at, _)| Some(*at) != vacant);
        let is_unused = |at: &usize| layouts().all(|(_, known)| id(*at) != Some(known.kind));
        let at = (0..self.kinds.len()).find(is_unused)?;
        *self.kinds.get_mut(at)? = columns;
        id(at)
    }
}

/// An item and its mutable state.
#[derive(Debug)]
pub(crate) struct Record {
    data: Arc<ItemData>,
    /// The location of the item's bytes, if the item is small. Such an item is read without access to its data or its
    /// chunks.
    row: Option<Row>,
    /// A copy of the key in the data, to save an indirection.
    pub(crate) key: u64,
    pub(crate) priority: f64,
    /// Another copy, for readers that only need an item's columns.
    pub(crate) inserted_at: Timestamp,
    pub(crate) times_sampled: i32,
    layout: LayoutId,
}

impl Record {
    pub(crate) fn new(data: Arc<ItemData>, priority: f64, times_sampled: i32, layouts: &mut Layouts) -> Self {
        let (row, layout) = layouts.row_of(&data.trajectory).unzip();
        let (key, inserted_at, layout) = (data.key, data.inserted_at, layout.unwrap_or_default());
        Self { data, row, key, priority, inserted_at, times_sampled, layout }
    }

    pub(crate) fn data(&self) -> &Arc<ItemData> {
        &self.data
    }

    pub(crate) fn into_data(self) -> Arc<ItemData> {
        self.data
    }

    /// Returns the item as a row of one of its table's `layouts`.
    pub(crate) fn row<'a>(&'a self, layouts: &'a Layouts) -> Option<(&'a Row, &'a RowLayout, KindId)> {
        let row = self.row.as_ref()?;
        layouts.get(self.layout).map(|(layout, kind)| (row, layout, kind))
    }

    /// Iterates over the chunks that are worth prefetching: with more, the first ones would leave the cache before
    /// being used.
    pub(crate) fn first_chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.data.trajectory.chunks().iter().take(PREFETCHED_CHUNKS)
    }

    /// Prefetches the memory to which this record refers.
    pub(crate) fn prefetch(&self) {
        prefetch(Arc::as_ptr(&self.data));
        if let Some(row) = &self.row {
            row.prefetch();
        }
    }

    pub(crate) fn view(&self) -> ItemView<'_> {
        ItemView { data: self.data(), priority: self.priority, times_sampled: self.times_sampled }
    }
}
