//! Saves a store to a folder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use relive_threads::try_parallel;
use rustix::fs::{FlockOperation, flock};

use super::data;
use super::manifest::{Group, GroupRow, LOCK, MANIFEST, Manifest, SavedRow};
use crate::bytes::wide;
use crate::error::{Error, Result};
use crate::memory::files::{self, failed};
use crate::store::{Pinned, Snapshot, SnapshotRow, Store};

/// A group of this size accepts no more rows, since a group is read, checksummed and written as a whole.
const GROUP_BYTES: u64 = 32 << 20;
/// The maximum number of threads that write.
const MAX_THREADS: usize = 8;

/// The result of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The number of the checkpoint; the next checkpoint in this folder gets the next number.
    pub number: u64,
    /// The number of trajectories in the checkpoint.
    pub rows: u64,
    /// The number of trajectories written by this save, rather than by an earlier one.
    pub written_rows: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// The number of files that were removed because they are no longer needed.
    pub removed_files: u64,
}

impl Store {
    /// Saves the store to a folder so that [`load`](Self::load) can recreate it: trajectories, weights, generations,
    /// the order of allocation and removal, and the state of the random numbers. Data in the folder's last checkpoint
    /// is not written again if this store wrote that checkpoint or was loaded from it.
    ///
    /// Writers can continue during a save; a trajectory cannot be evicted before it is written. Uncommitted
    /// trajectories are not saved.
    ///
    /// # Errors
    /// Another process is saving to the folder; the folder has a checkpoint with a different schema or capacity, or a
    /// damaged manifest; or a file cannot be written. In these cases, the folder still contains only its last
    /// checkpoint.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<Saved> {
        let folder = folder.as_ref();
        if folder.as_os_str().is_empty() {
            return Err(Error::invalid(
                "the path of the folder is empty; use \".\" for the working directory",
            ));
        }
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, error))?;
        let _lock = lock(folder)?;
        let before = self.before(folder)?;
        let (snapshot, dirty) =
            self.snapshot_and_pin(before.as_ref().filter(|(_, known)| *known).map(|(m, _)| m))?;
        let number = before.as_ref().map_or(1, |(manifest, _)| manifest.number + 1);
        let mut groups = dirty.kept;
        let mut places = dirty.places;
        let written = write_groups(self, folder, number, dirty.groups)
            .inspect_err(|_| discard(folder, number, None))?;
        let mut saved = Saved { number, rows: wide(snapshot.rows.len()), ..Saved::default() };
        for group in written {
            saved.written_rows += wide(group.rows.len());
            saved.written_bytes += group.bytes();
            add_places(&mut places, groups.len(), &group)?;
            groups.push(group);
        }
        let manifest = self.manifest(snapshot, number, &places, groups);
        let encoded = manifest.encode();
        files::write_whole(&folder.join(MANIFEST), &encoded)
            .inspect_err(|_| discard(folder, number, Some(&encoded)))?;
        self.inner.known.lock().insert(canonical(folder)?, manifest.nonce);
        let mut kept: Vec<u64> = manifest.groups.iter().map(|group| group.file).collect();
        kept.dedup();
        saved.removed_files = data::remove_others(folder, &kept)?;
        Ok(saved)
    }

    /// Returns the folder's checkpoint, if it has one, and whether this store wrote it or was loaded from it. Groups
    /// with incomplete files are left out, so that their rows are written again.
    fn before(&self, folder: &Path) -> Result<Option<(Manifest, bool)>> {
        let path = folder.join(MANIFEST);
        if !path.try_exists().map_err(|error| failed("look for", &path, error))? {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|error| failed("read", &path, error))?;
        let mut manifest = Manifest::decode(&bytes, &path.display().to_string()).map_err(|error| {
            Error::new(error.kind(), format!("{error}; save into another folder, or remove this one"))
        })?;
        if manifest.schema != *self.schema() || manifest.capacity != self.capacity() {
            return Err(Error::invalid(format!(
                "{} has a checkpoint of {} trajectories of {}, but this store has {} of {}; choose another folder",
                folder.display(),
                manifest.capacity,
                manifest.schema.describe(),
                self.capacity(),
                self.schema().describe()
            )));
        }
        let known = self.inner.known.lock().get(&canonical(folder)?) == Some(&manifest.nonce);
        let mut ends: HashMap<u64, u64> = HashMap::new();
        for group in &manifest.groups {
            let end = ends.entry(group.file).or_default();
            *end = (*end)
                .max(group.extents.iter().map(|extent| extent.offset + extent.bytes).max().unwrap_or(0));
        }
        ends.retain(|&file, &mut end| data::is_whole(folder, file, end));
        manifest.groups.retain(|group| ends.contains_key(&group.file));
        Ok(Some((manifest, known)))
    }

    /// Returns a snapshot of the store. Pins the rows that must be written, so that they cannot change before they are
    /// written.
    fn snapshot_and_pin(&self, before: Option<&Manifest>) -> Result<(Snapshot, Dirty)> {
        self.inner.snapshot(|snapshot| {
            let mut dirty = Dirty::new(snapshot, before, self);
            let pin = |rows: &Vec<GroupRow>| {
                let indices: Vec<u64> = rows.iter().map(|row| self.inner.shard.global(row.row)).collect();
                self.inner.reader.hold(&indices).map(|(pinned, _)| Some(pinned))
            };
            let pinned: Vec<Option<Pinned>> = dirty.rows.iter().map(pin).collect::<Result<_>>()?;
            dirty.groups = std::mem::take(&mut dirty.rows).into_iter().zip(pinned).collect();
            Ok(dirty)
        })
    }

    fn manifest(&self, snapshot: Snapshot, number: u64, places: &Places, groups: Vec<Group>) -> Manifest {
        let options = &self.inner.options;
        let rows = snapshot.rows.iter().map(|row| {
            let (_, group, place) = places[&row.row];
            SavedRow {
                row: row.row,
                length: row.length,
                weight: row.weight,
                inserted: row.inserted,
                sampled: row.sampled,
                group,
                place,
            }
        });
        Manifest {
            schema: self.schema().clone(),
            capacity: self.capacity(),
            rank: options.rank,
            ranks: options.ranks,
            number,
            committed: snapshot.committed,
            random: snapshot.random,
            removal: options.removal.number(),
            max_selectable: options.max_selectable.unwrap_or(u64::MAX),
            max_times_sampled: options.removal.max_times_sampled(),
            nonce: nonce(),
            rows: rows.collect(),
            generations: snapshot.generations,
            free: snapshot.free,
            order: snapshot.order,
            groups,
        }
    }
}

/// For each row: generation, group and place in the group.
type Places = HashMap<u64, (u64, u32, u32)>;

/// The rows that must be written, and those that exist already.
#[derive(Default)]
struct Dirty {
    /// Groups of the last checkpoint with at least one wanted row.
    kept: Vec<Group>,
    /// The places of rows in these groups.
    places: Places,
    rows: Vec<Vec<GroupRow>>,
    groups: Vec<(Vec<GroupRow>, Option<Pinned>)>,
}

impl Dirty {
    fn new(snapshot: &Snapshot, before: Option<&Manifest>, store: &Store) -> Self {
        let mut dirty = Self::default();
        if let Some(before) = before {
            dirty.keep(snapshot, before);
        }
        let step_bytes =
            (0..store.schema().columns().len()).map(|column| store.schema().step_bytes(column)).sum::<u64>();
        let mut rows: Vec<&SnapshotRow> =
            snapshot.rows.iter().filter(|row| !dirty.places.contains_key(&row.row)).collect();
        // Oldest first, because the oldest rows are the first to be evicted, so their pins should end first.
        rows.sort_unstable_by_key(|row| row.inserted);
        let mut bytes = GROUP_BYTES;
        for row in rows {
            if bytes >= GROUP_BYTES {
                dirty.rows.push(Vec::new());
                bytes = 0;
            }
            let length = u64::from(row.length);
            bytes += length * step_bytes;
            let group = dirty.rows.last_mut().expect("one was pushed");
            group.push(GroupRow { row: row.row, generation: row.generation, length });
        }
        dirty
    }

    /// Keeps the rows of the last checkpoint, except those in files of which less than half is still wanted.
    fn keep(&mut self, snapshot: &Snapshot, before: &Manifest) {
        let current: HashMap<u64, u64> = snapshot.rows.iter().map(|row| (row.row, row.generation)).collect();
        let wanted = |row: &GroupRow| current.get(&row.row) == Some(&row.generation);
        // For each file, the number of wanted bytes and the total number of bytes. The bytes of a group are attributed
        // to its rows in proportion to their lengths.
        let mut files: HashMap<u64, (u64, u64)> = HashMap::new();
        for group in &before.groups {
            let (alive, all) = files.entry(group.file).or_default();
            let steps: u64 = group.rows.iter().map(|row| row.length).sum();
            let per_step = group.bytes().checked_div(steps).unwrap_or(0);
            *alive +=
                group.rows.iter().filter(|row| wanted(row)).map(|row| row.length * per_step).sum::<u64>();
            *all += group.bytes();
        }
        for group in &before.groups {
            let (alive, all) = files[&group.file];
            if alive.saturating_mul(2) >= all && group.rows.iter().any(wanted) {
                let number = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
                for (place, row) in (0_u32..).zip(&group.rows).filter(|(_, row)| wanted(row)) {
                    self.places.insert(row.row, (row.generation, number, place));
                }
                self.kept.push(group.clone());
            }
        }
    }
}

/// Removes the data file of a failed save, unless that save's manifest is already in the folder.
fn discard(folder: &Path, number: u64, manifest: Option<&[u8]>) {
    let is_named = match fs::read(folder.join(MANIFEST)) {
        Ok(bytes) => manifest == Some(&bytes[..]),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if !is_named {
        // The file may be missing; the error to report is that of the save.
        drop(fs::remove_file(data::path(folder, number)));
    }
}

fn add_places(places: &mut Places, number: usize, group: &Group) -> Result<()> {
    let number =
        u32::try_from(number).map_err(|_| Error::invalid("a checkpoint of more than 2^32 groups"))?;
    for (place, row) in (0_u32..).zip(&group.rows) {
        places.insert(row.row, (row.generation, number, place));
    }
    Ok(())
}

/// Writes groups on several threads. Pins end as soon as their rows have been written.
fn write_groups(
    store: &Store,
    folder: &Path,
    number: u64,
    groups: Vec<(Vec<GroupRow>, Option<Pinned>)>,
) -> Result<Vec<Group>> {
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let (rows, pins): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let file = data::create(folder, number)?;
    let path = data::path(folder, number);
    let placed = data::place(store.schema(), number, &rows)?;
    let work: Vec<Mutex<(Group, Option<Pinned>)>> = placed.into_iter().zip(pins).map(Mutex::new).collect();
    in_parallel(work.len(), |group| {
        let (group, pinned) = &mut *work[group].lock();
        let pinned = pinned.take().ok_or_else(|| Error::unavailable("a group was written twice"))?;
        data::write(&file, group, &pinned).map_err(|error| failed("write", &path, error))
    })?;
    file.sync_all().map_err(|error| failed("sync", &path, error))?;
    files::sync_folder(folder)?;
    Ok(work.into_iter().map(|group| group.into_inner().0).collect())
}

/// Calls `work` for each number from 0 to `parts - 1`, on as many threads as there are processors, or on fewer if the
/// system does not allow more; stops at the first error.
pub(super) fn in_parallel(parts: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    try_parallel(threads, parts, work)
}

/// A locked folder. A process that was forked in the meantime has a copy of the file, and closing the file here would
/// leave the folder locked until that process ends, so the lock is released explicitly.
#[derive(Debug)]
pub(super) struct FolderLock(pub(super) File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file releases the lock as well, unless there is a copy.
        let _: rustix::io::Result<()> = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Prevents two processes from saving to the same folder at the same time, unless the file system has no locks.
pub(super) fn lock(folder: &Path) -> Result<FolderLock> {
    let path = folder.join(LOCK);
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| failed("open", &path, error))?;
    if !files::try_lock(&file, &path)? {
        return Err(Error::unavailable(format!(
            "another save into {} is in progress; wait for it, or choose another folder",
            folder.display()
        )));
    }
    Ok(FolderLock(file))
}

pub(super) fn canonical(folder: &Path) -> Result<std::path::PathBuf> {
    folder.canonicalize().map_err(|error| failed("find", folder, error))
}

/// Returns a number that no other checkpoint has.
fn nonce() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    RandomState::new().hash_one(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Schema};
    use crate::store::StoreOptions;
    use relive_tensor::DType;

    /// Defect 23: groups have a limited size, since a thread writes and reads a whole group at a time.
    #[test]
    fn groups_have_a_limited_size() {
        const STEP: u64 = 1 << 20;
        let schema = Schema::new(100, vec![Column::new("a", DType::UInt8, &[STEP])]).unwrap();
        let options = StoreOptions { touch_threads: 0, ..StoreOptions::new(1) };
        let store = Store::create(schema, options).unwrap();
        let lengths = (0..200_u32).map(|number| if number % 10 == 0 { 50 + number / 4 } else { number % 10 });
        let rows: Vec<SnapshotRow> = (0..)
            .zip(lengths)
            .map(|(row, length)| SnapshotRow {
                row,
                generation: 1,
                length,
                weight: 1.0,
                inserted: row,
                sampled: 0,
            })
            .collect();
        let snapshot = Snapshot {
            rows,
            generations: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            random: 0,
            committed: 0,
        };
        let groups = Dirty::new(&snapshot, None, &store).rows;
        assert!(groups.iter().flatten().map(|row| row.row).eq(0..200));
        let bytes = |group: &[GroupRow]| group.iter().map(|row| row.length * STEP).sum::<u64>();
        for (number, group) in (1..).zip(&groups) {
            let (_, others) = group.split_last().unwrap();
            assert!(bytes(others) < GROUP_BYTES, "{group:?}");
            assert!(number == groups.len() || bytes(group) >= GROUP_BYTES, "{group:?}");
        }
    }
}
