//! Saves a snapshot to files.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use relive_table::{CheckpointProgress, Snapshot, StoredItem, TableSnapshot, Timestamp};
use relive_tensor::Chunk;
use smallvec::SmallVec;

use super::adopt::adopt;
use super::garbage::{Listing, remove};
use super::pace::Pace;
use super::places::Places;
use super::plan::Plan;
use crate::fast_map::FastSet;
use crate::manifest::{
    Description, ItemColumns, Kind, MAX_BLOCK_ENTRIES, ManifestWriter, TableDescription, Totals,
    encode_chunks,
};
use crate::segment::{Place, SegmentId, SegmentWriter, WrittenSegment};
use crate::storage::Storage;
use crate::tier::Tier;
use crate::{Error, ErrorKind, names};

/// Sizes that tests reduce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The size from which a segment accepts no more chunks.
    pub(super) segment_bytes: u64,
    /// The decoded size from which a block accepts no more items.
    pub(super) block_bytes: usize,
    /// The maximum number of entries in a block.
    pub(super) block_entries: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, block_bytes: 16 << 20, block_entries: MAX_BLOCK_ENTRIES as usize }
    }
}

/// The result of a save.
pub(super) struct SaveResult {
    pub(super) name: String,
    pub(super) written_bytes: u64,
    pub(super) total_bytes: u64,
}

/// The destination of a snapshot, and the known places of its chunks.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) places: &'a Places,
    pub(super) sizes: Sizes,
    pub(super) tier: Option<&'a Tier>,
    /// The time of the latest checkpoint of the other format in the same place.
    pub(super) latest: Option<Timestamp>,
}

/// Writes a snapshot as the next checkpoint. Drops the snapshot's references to items as they are written. A failed
/// save leaves no files behind, unless the storage prevents the cleanup.
pub(super) fn save(
    target: Target<'_>,
    mut snapshot: Snapshot,
    progress: &CheckpointProgress,
) -> Result<SaveResult, Error> {
    let Target { storage, places, sizes, tier, latest } = target;
    if let Some(tier) = tier {
        adopt(storage.as_ref(), tier, places, &snapshot)?;
    }
    let listing = Listing::read(storage.as_ref())?;
    let number = listing.newest().map_or(1, |newest| newest + 1);
    if number > names::MAX_NUMBER {
        let text = format!("cannot write {}: the checkpoint numbers are used up", storage.describe(""));
        return Err(Error::plain(ErrorKind::Io, text));
    }
    snapshot.tables.iter_mut().filter(|table| !is_sorted(table)).for_each(TableSnapshot::sort);
    let plan = Plan::new(&snapshot, places, &listing.segments, sizes.segment_bytes / 2);
    progress.expect(plan.items, plan.new_bytes);
    let latest = latest.max(listing.latest_time(storage.as_ref()));
    let description = describe(number, time_after(latest), &snapshot);
    let name = names::checkpoint_name(number);
    let mut segments = SegmentWriter::new(Arc::clone(storage), sizes.segment_bytes);
    let written = write(target, &name, &plan, snapshot, &mut segments, description, progress);
    let made: Vec<WrittenSegment> = segments.written().to_vec();
    // After an error, the drop waits for the sealing thread.
    drop(segments);
    match written {
        Ok((description, file_bytes)) => {
            places.confirm(made.iter().map(|segment| segment.id));
            let addresses = plan.into_addresses();
            places.retain(|address| addresses.contains_key(&address));
            let made_bytes: u64 = made.iter().map(|segment| segment.size_bytes).sum();
            let total_bytes = file_bytes + description.segment_bytes();
            Ok(SaveResult { name, written_bytes: file_bytes + made_bytes, total_bytes })
        }
        Err(error) => {
            let own = (!error.is_of_another()).then_some(name);
            clean(storage.as_ref(), own, &made);
            Err(error)
        }
    }
}

/// Removes the files of a failed checkpoint. The checkpoint's own file is removed first, because it may exist if only
/// the final sync failed, and it must not exist without its segments. `own` is `None` if the file with that name
/// belongs to another writer.
fn clean(storage: &dyn Storage, own: Option<String>, made: &[WrittenSegment]) {
    let segments = made.iter().map(|segment| segment.id.file_name());
    let removed = own.into_iter().chain(segments).try_for_each(|name| remove(storage, &name));
    if let Err(error) = removed {
        tracing::warn!(%error, "cannot clean up after a failed checkpoint; the next one will retry");
    }
}

fn is_sorted(table: &TableSnapshot) -> bool {
    table.items.is_sorted_by_key(|item| item.data.sequence)
}

fn describe(number: u64, created_at: Timestamp, snapshot: &Snapshot) -> Description {
    let table = |table: &TableSnapshot| TableDescription {
        config: Arc::clone(&table.config),
        counters: table.counters,
        items: table.items.len() as u64,
        structure: table.structure.clone(),
    };
    Description {
        number,
        created_at,
        software: format!("relive {}", env!("CARGO_PKG_VERSION")),
        tables: snapshot.tables.iter().map(table).collect(),
        segments: Vec::new(),
        totals: None,
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns the time of a new checkpoint. Even if the clock was set back, the new checkpoint must not appear older than
/// existing checkpoints.
fn time_after(latest: Option<Timestamp>) -> Timestamp {
    let next = |latest: Timestamp| Timestamp::from_nanos(latest.as_nanos().saturating_add(1));
    latest.map_or_else(now, |latest| next(latest).max(now()))
}

fn write(
    target: Target<'_>,
    name: &str,
    plan: &Plan<'_>,
    snapshot: Snapshot,
    segments: &mut SegmentWriter,
    mut description: Description,
    progress: &CheckpointProgress,
) -> Result<(Description, u64), Error> {
    let manifest = ManifestWriter::begin(target.storage.as_ref(), name, &description)?;
    let mut writing = Writing {
        plan,
        sizes: target.sizes,
        tier: target.tier,
        segments,
        manifest,
        progress,
        items: ItemColumns::default(),
        window: Window::default(),
        used: FastSet::default(),
        totals: Totals::default(),
        pace: Pace::new(),
    };
    for (number, table) in (0..).zip(snapshot.tables) {
        writing.table(number, table)?;
    }
    let Writing { manifest, used, totals, segments, .. } = writing;
    segments.finish()?;
    let size = |id: &SegmentId| plan.size_of(*id).or_else(|| segments.size_of(*id)).unwrap_or_default();
    description.segments = used.iter().map(|id| WrittenSegment { id: *id, size_bytes: size(id) }).collect();
    description.segments.sort_unstable_by_key(|segment| segment.id);
    description.totals = Some(totals);
    let file_bytes = manifest.finish(&description)?;
    Ok((description, file_bytes))
}

/// A checkpoint under construction.
struct Writing<'a> {
    plan: &'a Plan<'a>,
    sizes: Sizes,
    tier: Option<&'a Tier>,
    segments: &'a mut SegmentWriter,
    manifest: ManifestWriter,
    progress: &'a CheckpointProgress,
    /// Items for the next block.
    items: ItemColumns,
    window: Window,
    /// Segments that contain chunks of the checkpoint.
    used: FastSet<SegmentId>,
    totals: Totals,
    pace: Pace,
}

/// Chunks that are not in a block yet.
#[derive(Default)]
struct Window {
    /// The position of the first of these chunks.
    first: u32,
    /// `None` for chunks that are waiting to be written.
    places: Vec<Option<Place>>,
    /// The indices of the waiting chunks in the list of places, in the order of writing.
    waiting: VecDeque<usize>,
}

impl Window {
    /// Returns the position of the next chunk.
    fn next(&self) -> u32 {
        self.first + u32::try_from(self.places.len()).expect("positions have 32 bits")
    }

    /// Adds a chunk, whose place is `None` if it is waiting to be written.
    fn add(&mut self, place: Option<Place>) {
        if place.is_none() {
            self.waiting.push_back(self.places.len());
        }
        self.places.push(place);
    }

    /// Records the place of the chunk that has waited longest and has now been written.
    fn written(&mut self, place: Place) {
        let index = self.waiting.pop_front();
        if let Some(slot) = index.and_then(|index| self.places.get_mut(index)) {
            *slot = Some(place);
        }
    }
}

impl Writing<'_> {
    fn table(&mut self, number: u32, table: TableSnapshot) -> Result<(), Error> {
        for item in table.items {
            self.item(&item)?;
            self.pace.keep();
            let is_full = self.items.len() >= self.sizes.block_entries
                || self.items.size_bytes() >= self.sizes.block_bytes
                || self.window.places.len() >= self.sizes.block_entries;
            if is_full {
                self.blocks(number)?;
            }
        }
        self.blocks(number)
    }

    fn item(&mut self, item: &StoredItem) -> Result<(), Error> {
        let chunks = item.data.trajectory.chunks();
        let positions: SmallVec<[u32; 8]> = chunks.iter().map(|chunk| self.plan.position_of(chunk)).collect();
        for (chunk, position) in chunks.iter().zip(&positions) {
            if *position == self.window.next() {
                self.add(chunk)?;
            }
        }
        self.items.push(item, positions);
        Ok(())
    }

    /// Adds a chunk at its first occurrence.
    fn add(&mut self, chunk: &Arc<Chunk>) -> Result<(), Error> {
        let place = self.plan.place_of(chunk);
        self.window.add(place);
        if place.is_some() {
            return Ok(());
        }
        // Data that the disk has corrupted must not be written with a new, matching checksum.
        let frame = self.tier.map_or(Ok(None), |tier| tier.checked_frame(chunk))?;
        let Self { plan, segments, window, progress, .. } = self;
        segments.push(Arc::clone(chunk), frame, |chunk, place| written(plan, window, progress, chunk, place))
    }

    /// Writes blocks with the pending chunks, and with the items, which belong to one table.
    fn blocks(&mut self, table: u32) -> Result<(), Error> {
        let Self { plan, segments, window, progress, .. } = self;
        segments.flush(|chunk, place| written(plan, window, progress, chunk, place))?;
        self.chunk_blocks()?;
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return Ok(());
        }
        let count = count(items.len());
        self.totals.items += u64::from(count);
        self.manifest.block(Kind::Items, table, count, items.encode())?;
        self.progress.advance(count.into(), 0);
        Ok(())
    }

    fn chunk_blocks(&mut self) -> Result<(), Error> {
        let places = self.window.places.drain(..);
        let places: Vec<Place> =
            places.map(|place| place.expect("all chunks in the window were written")).collect();
        for part in places.chunks(self.sizes.block_entries) {
            let count = count(part.len());
            self.manifest.block(Kind::Chunks, self.window.first, count, encode_chunks(part))?;
            self.window.first += count;
            self.totals.chunks += u64::from(count);
            for place in part {
                self.totals.chunk_bytes += place.record_bytes();
                self.used.insert(place.segment);
            }
        }
        Ok(())
    }
}

fn written(
    plan: &Plan<'_>,
    window: &mut Window,
    progress: &CheckpointProgress,
    chunk: &Arc<Chunk>,
    place: Place,
) {
    plan.placed(chunk, place);
    window.written(place);
    progress.advance(0, place.record_bytes());
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a block has 65,536 entries at most")
}
