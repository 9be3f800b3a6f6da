//! An item in its table, and what it is like.

use core::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use relive_tensor::{ColumnLayout, Row, RowLayout, Trajectory};

use crate::item::{ItemData, ItemView};
use crate::time::Timestamp;

/// The number of a layout in its table's [`Layouts`]; without meaning for an item that is no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayoutId(u32);

/// The number of what several layouts have in common in [`Layouts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindId(u32);

/// How the rows of a table lie, each layout once. Items with the same columns are of one kind, though they lie in
/// different ways: in the chunk at the end of an episode, which is shorter, columns are nearer to each other.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    known: Vec<Known>,
    kinds: Vec<Arc<[ColumnLayout]>>,
    by_content: HashTable<u32>,
    hasher: FixedState,
    /// The one found last.
    last: LayoutId,
}

#[derive(Debug)]
struct Known {
    layout: RowLayout,
    kind: KindId,
    /// Records that have it. One without any gives its place to another when there are too many.
    records: u32,
}

/// Layouts that are told apart; items with others are read in another way. Tables have one, and some for each length of
/// the chunks.
const MAX_LAYOUTS: usize = 1_024;

impl Layouts {
    /// The kind of rows with these columns.
    pub(crate) fn kind_of(&self, columns: &Arc<[ColumnLayout]>) -> Option<KindId> {
        let at = self.kinds.iter().position(|kind| Arc::ptr_eq(kind, columns) || kind == columns)?;
        u32::try_from(at).ok().map(KindId)
    }

    /// The columns of the row that came last.
    pub(crate) fn newest(&self) -> Option<&Arc<[ColumnLayout]>> {
        let known = self.known.get(self.last.0 as usize)?;
        self.kinds.get(known.kind.0 as usize)
    }

    pub(crate) fn get(&self, id: LayoutId) -> Option<(&RowLayout, KindId)> {
        self.known.get(id.0 as usize).map(|known| (&known.layout, known.kind))
    }

    /// The item as a row, if it is one.
    fn row_of(&mut self, trajectory: &Trajectory) -> Option<(Row, LayoutId)> {
        let last = self.get(self.last).map(|(layout, _)| layout);
        let (row, other) = trajectory.row(last)?;
        if let Some(layout) = other {
            self.last = self.find(&layout).or_else(|| self.add(layout))?;
        }
        self.known.get_mut(self.last.0 as usize)?.records += 1;
        Some((row, self.last))
    }

    /// A record has gone.
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
        let known = Known { layout, kind, records: 0 };
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

    /// The place of a layout that no record has any more.
    fn vacate(&mut self) -> Option<u32> {
        let at = u32::try_from(self.known.iter().position(|known| known.records == 0)?).ok()?;
        let hash = self.hasher.hash_one(&self.known.get(at as usize)?.layout);
        if let Ok(found) = self.by_content.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        Some(at)
    }

    /// The kind of these columns; a new one takes the place of one that no layout is of, but perhaps the one that is
    /// `vacant`.
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

/// An item and what changes about it.
#[derive(Debug)]
pub(crate) struct Record {
    data: Arc<ItemData>,
    /// Where its bytes lie, if it is small: reading it takes the way by neither its data nor its chunks.
    row: Option<Row>,
    /// The same as in the data, here to spare a look-up the way there.
    pub(crate) key: u64,
    pub(crate) priority: f64,
    /// The same again, for those who get no more of an item than its columns.
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

    /// The item as a row of one of `layouts`, which its table has.
    pub(crate) fn row<'a>(&'a self, layouts: &'a Layouts) -> Option<(&'a Row, &'a RowLayout, KindId)> {
        let row = self.row.as_ref()?;
        layouts.get(self.layout).map(|(layout, kind)| (row, layout, kind))
    }

    pub(crate) fn view(&self) -> ItemView<'_> {
        ItemView { data: self.data(), priority: self.priority, times_sampled: self.times_sampled }
    }
}
