//! Runs of items: many items for one table, in columns, for the bulk path.
//!
//! In this form, an item of one step takes a dozen bytes in addition to its key and priority, and it needs no separate
//! allocation on either side until it becomes a trajectory.

use std::ops::RangeInclusive;
use std::sync::Arc;

use relive_table::NewItem;
use relive_tensor::{Chunk, Slice, TrajectoryBuilder};

use crate::WireError;
use crate::item::check_counts;
use crate::v1::ItemRun;

/// The number of recent chunks among which a slice's chunk is searched before it is added to the list again. There is
/// at least one for each column, but not so many that adding the chunk again would be cheaper.
const RECENT_CHUNKS: RangeInclusive<usize> = 16..=256;

/// The largest number of characters of a table's name in an error.
const MAX_NAME_CHARS_IN_ERROR: usize = 100;

/// A slice of a chunk in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSlice {
    /// The key of the chunk.
    pub chunk_key: u64,
    /// The index of the column in the chunk.
    pub index: u32,
    /// The first row.
    pub offset: u32,
    /// The number of rows.
    pub length: u32,
}

impl ItemRun {
    /// Creates a run without items. Its items will have one column for each entry of `squeeze`.
    #[must_use]
    pub fn new(table: &str, squeeze: impl Iterator<Item = bool>) -> Self {
        Self { table: table.to_owned(), squeeze: squeeze.collect(), ..Self::default() }
    }

    /// Returns whether an item for `table` with the given columns can be added to this run.
    #[must_use]
    pub fn accepts(&self, table: &str, squeeze: impl Iterator<Item = bool>) -> bool {
        self.table == table && squeeze.eq(self.squeeze.iter().copied())
    }

    /// Begins an item. Add its columns next, one by one.
    pub fn begin_item(&mut self, key: u64, priority: f64) {
        self.keys.push(key);
        self.priorities.push(priority);
    }

    /// Adds the next column of the current item.
    pub fn push_column(&mut self, slices: impl ExactSizeIterator<Item = RunSlice>) {
        let count = u32::try_from(slices.len()).unwrap_or(u32::MAX);
        // The slice counts are omitted until a column has a count other than 1.
        if count != 1 && self.slices.is_empty() {
            self.slices.resize(self.chunks.len(), 1);
        }
        if count != 1 || !self.slices.is_empty() {
            self.slices.push(count);
        }
        for RunSlice { chunk_key, index, offset, length } in slices {
            let place = self.place_of(chunk_key);
            // The indices are omitted until a slice refers to a column other than the first one of its chunk.
            if index != 0 && self.indices.is_empty() {
                self.indices.resize(self.chunks.len(), 0);
            }
            if index != 0 || !self.indices.is_empty() {
                self.indices.push(index);
            }
            self.chunks.push(place);
            self.offsets.push(offset);
            self.lengths.push(length);
        }
    }

    fn place_of(&mut self, chunk_key: u64) -> u32 {
        let recent = self.squeeze.len().clamp(*RECENT_CHUNKS.start(), *RECENT_CHUNKS.end());
        let old = self.chunk_keys.len().saturating_sub(recent);
        let recent = self.chunk_keys.get(old..).unwrap_or_default();
        let known = recent.iter().rposition(|&key| key == chunk_key).map(|at| old + at);
        let place = known.unwrap_or_else(|| {
            self.chunk_keys.push(chunk_key);
            self.chunk_keys.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

/// Iterates over the items of `run`. `chunk_of` finds chunks, and is called once for each chunk of the run. `builder`
/// reuses state from earlier items.
///
/// # Errors
/// [`WireError::ItemRun`] if the run has no items or its columns differ in length. For an invalid item, the iterator
/// yields an error of [`item::decode`](crate::item::decode).
pub fn decode<'a>(
    run: &'a ItemRun,
    builder: &'a mut TrajectoryBuilder,
    chunk_of: impl Fn(u64) -> Option<Arc<Chunk>>,
) -> Result<Items<'a>, WireError> {
    check(run)?;
    let chunks = run.chunk_keys.iter().map(|&key| chunk_of(key)).collect();
    Ok(Items { run, builder, chunks, item: 0, slice: 0 })
}

/// An iterator over the items of a run.
#[derive(Debug)]
pub struct Items<'a> {
    run: &'a ItemRun,
    builder: &'a mut TrajectoryBuilder,
    /// The chunks, in the order of the run's keys, with `None` for unknown chunks.
    chunks: Vec<Option<Arc<Chunk>>>,
    /// The next item.
    item: usize,
    /// Its first slice.
    slice: usize,
}

impl Iterator for Items<'_> {
    type Item = Result<NewItem, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, priority) = (*self.run.keys.get(self.item)?, *self.run.priorities.get(self.item)?);
        let item = self.build(key, priority);
        self.item += 1;
        Some(item)
    }
}

impl Items<'_> {
    fn build(&mut self, key: u64, priority: f64) -> Result<NewItem, WireError> {
        let (run, columns) = (self.run, self.run.squeeze.len());
        let first = self.item * columns;
        let counts = run.slices.get(first..first + columns);
        let slices = counts.map_or(columns, |counts| counts.iter().map(|&count| count as usize).sum());
        let begin = self.slice;
        self.slice += slices;
        check_counts(key, columns, slices)?;
        self.builder.clear();
        let mut at = begin;
        for (column, &squeeze) in run.squeeze.iter().enumerate() {
            self.builder.begin_column(squeeze);
            let end = at + counts.and_then(|counts| counts.get(column)).map_or(1, |&count| count as usize);
            for slice in at..end {
                self.add_slice(key, slice)?;
            }
            at = end;
        }
        let trajectory =
            self.builder.build().map_err(|source| WireError::Trajectory { item: key, source })?;
        Ok(NewItem { key, priority, times_sampled: 0, trajectory })
    }

    fn add_slice(&mut self, key: u64, slice: usize) -> Result<(), WireError> {
        let run = self.run;
        let of = |list: &[u32]| list.get(slice).copied().unwrap_or(0);
        let place = of(&run.chunks) as usize;
        let chunk = self.chunks.get(place).and_then(Option::as_ref).ok_or_else(|| {
            let chunk = self.run.chunk_keys.get(place).copied().unwrap_or(0);
            WireError::UnknownChunk { item: key, chunk }
        })?;
        let chunk = self.builder.chunk(Arc::clone(chunk));
        self.builder.slice(Slice {
            chunk,
            offset: of(&run.offsets),
            length: of(&run.lengths),
            index: of(&run.indices),
        });
        Ok(())
    }
}

/// Checks that the columns of a run have the right lengths, and that slices refer only to named chunks.
fn check(run: &ItemRun) -> Result<(), WireError> {
    let (items, columns) = (run.keys.len(), run.squeeze.len());
    let each = items.saturating_mul(columns);
    if items == 0 {
        return Err(contradiction(run, "a run without items".to_owned()));
    }
    expect(run, "priorities", run.priorities.len(), items)?;
    if !run.slices.is_empty() {
        expect(run, "numbers of slices", run.slices.len(), each)?;
    }
    let slices = run.slices.iter().fold(0_u64, |sum, &count| sum + u64::from(count));
    let slices = if run.slices.is_empty() { each } else { usize::try_from(slices).unwrap_or(usize::MAX) };
    for (what, list) in [("chunks", &run.chunks), ("offsets", &run.offsets), ("lengths", &run.lengths)] {
        expect(run, what, list.len(), slices)?;
    }
    if !run.indices.is_empty() {
        expect(run, "numbers of columns", run.indices.len(), slices)?;
    }
    let known = run.chunk_keys.len();
    match run.chunks.iter().find(|&&place| place as usize >= known) {
        Some(place) => {
            Err(contradiction(run, format!("a slice refers to chunk number {place}, but there are {known}")))
        }
        None => Ok(()),
    }
}

fn expect(run: &ItemRun, what: &str, count: usize, expected: usize) -> Result<(), WireError> {
    if count == expected {
        return Ok(());
    }
    Err(contradiction(run, format!("{count} {what}, but expected {expected}")))
}

fn contradiction(run: &ItemRun, reason: String) -> WireError {
    WireError::ItemRun { table: run.table.chars().take(MAX_NAME_CHARS_IN_ERROR).collect(), reason }
}
