//! Loads a store from a folder.
#![expect(unsafe_code, reason = "steps are copied by address; the block says why it is sound")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::data;
use super::manifest::{Group, MANIFEST, Manifest};
use super::save::{canonical, in_parallel};
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::files::failed;
use crate::memory::segment;
use crate::schema::Schema;
use crate::store::{Removal, Snapshot, SnapshotRow, Store, StoreOptions};

/// The maximum number of times that a checkpoint is opened again because a save has replaced it in the meantime. Each
/// time takes a whole save.
const TRIES: usize = 16;

/// A checkpoint in a folder, opened but not loaded. Later saves into the folder do not affect it.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    /// The data files, by number. They stay readable if a save removes them.
    files: HashMap<u64, File>,
}

impl Checkpoint {
    /// Opens the checkpoint in a folder.
    ///
    /// # Errors
    /// The folder has no checkpoint, the manifest is damaged, or a data file is missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let mut manifest = read_manifest(folder)?;
        for _ in 0..TRIES {
            let error = match open_files(folder, &manifest) {
                Ok(files) => return Ok(Self { folder: folder.to_owned(), manifest, files }),
                Err(error) => error,
            };
            let before = manifest.nonce;
            manifest = read_manifest(folder)?;
            if manifest.nonce == before {
                return Err(error);
            }
        }
        Err(Error::unavailable(format!(
            "{} was saved again {TRIES} times while it was being opened; try again, or save less often",
            folder.display()
        )))
    }

    /// Returns the schema of the checkpoint's trajectories.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.manifest.schema
    }

    /// Returns the checkpoint's number in the folder.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.manifest.number
    }

    /// Returns the number of trajectories in the checkpoint.
    #[must_use]
    pub fn rows(&self) -> u64 {
        wide(self.manifest.rows.len())
    }

    /// Returns the options of the saved store, with defaults for options that a checkpoint does not record: memory,
    /// slots, and tiers.
    ///
    /// # Errors
    /// The store chose the trajectories to evict with a callback, which a file cannot record: pass options with a
    /// callback to [`load`](Self::load).
    pub fn options(&self) -> Result<StoreOptions> {
        let manifest = &self.manifest;
        let removal = Removal::from_number(manifest.removal, manifest.max_times_sampled);
        let Some(removal) = removal.map_err(Error::corrupt)? else {
            return Err(Error::invalid(format!(
                "the checkpoint's store used removal strategy {}, a callback; pass options with a callback",
                manifest.removal
            )));
        };
        Ok(StoreOptions {
            removal,
            // A number above the capacity imposes no limit.
            max_selectable: Some(manifest.max_selectable).filter(|&most| most <= manifest.capacity),
            rank: manifest.rank,
            ranks: manifest.ranks,
            ..StoreOptions::new(manifest.capacity)
        })
    }

    /// Recreates the store, with a name, or without one in the memory of this process only.
    ///
    /// # Errors
    /// The options differ from the saved store's in capacity, rank or kind of removal; a file is missing or damaged
    /// (the error names the place); or memory is insufficient.
    pub fn load(&self, name: Option<&str>, options: StoreOptions) -> Result<Store> {
        self.check(&options)?;
        let schema = self.manifest.schema.clone();
        let store = match name {
            Some(name) => Store::create_named(name, schema, options)?,
            None => Store::create_private(schema, options)?,
        };
        self.read_rows(&store)?;
        store.inner.restore(&self.snapshot());
        store.inner.known.lock().insert(canonical(&self.folder)?, self.manifest.nonce);
        Ok(store)
    }

    fn check(&self, options: &StoreOptions) -> Result<()> {
        let manifest = &self.manifest;
        let requested = [options.capacity, options.rank, options.ranks, options.removal.number()];
        let saved = [manifest.capacity, manifest.rank, manifest.ranks, manifest.removal];
        if requested != saved || options.removal.max_times_sampled() != manifest.max_times_sampled {
            return Err(Error::invalid(format!(
                "the options have capacity {}, rank {} of {} and {:?}, but the checkpoint has capacity {}, \
                 rank {} of {}, removal {} with at most {} samples; start from Checkpoint::options",
                options.capacity,
                options.rank,
                options.ranks,
                options.removal,
                manifest.capacity,
                manifest.rank,
                manifest.ranks,
                manifest.removal,
                manifest.max_times_sampled
            )));
        }
        Ok(())
    }

    /// Reads the bytes of all rows into the tables of the new store.
    fn read_rows(&self, store: &Store) -> Result<()> {
        let mut wanted = vec![Vec::new(); self.manifest.groups.len()];
        for row in &self.manifest.rows {
            wanted[row.group as usize].push(narrow(u64::from(row.place)));
        }
        let columns = self.manifest.schema.columns().len();
        // Allocating a buffer costs more than reading into it, so threads reuse each other's buffers.
        let spare: Mutex<Vec<Vec<u8>>> = Mutex::default();
        in_parallel(self.manifest.groups.len() * columns, |part| {
            let (number, column) = (part / columns, part % columns);
            let group = &self.manifest.groups[number];
            let mut buffer = spare.lock().pop().unwrap_or_default();
            data::read(
                &self.files[&group.file],
                &data::path(&self.folder, group.file),
                &group.extents[column],
                &mut buffer,
            )?;
            self.place(store, group, column, &wanted[number], &buffer);
            spare.lock().push(buffer);
            Ok(())
        })
    }

    /// Copies the wanted rows of an extent to their places.
    fn place(&self, store: &Store, group: &Group, column: usize, wanted: &[usize], extent: &[u8]) {
        let step_bytes = self.manifest.schema.step_bytes(column);
        let mut begins = Vec::with_capacity(group.rows.len());
        let mut end = 0;
        for row in &group.rows {
            begins.push(end);
            end += narrow(row.length * step_bytes);
        }
        for &place in wanted {
            let row = &group.rows[place];
            let begin = begins[place];
            let bytes = &extent[begin..begin + narrow(row.length * step_bytes)];
            // The store is new, so its rows are free. Other processes can find the store only by its name, and they see
            // all rows as free.
            let start = store.inner.segment.row(column, row.row).0;
            // SAFETY: the bytes are steps of one trajectory, so they fit in the row, which nothing else accesses.
            unsafe { segment::write(start, bytes) };
        }
    }

    fn snapshot(&self) -> Snapshot {
        let manifest = &self.manifest;
        let row = |saved: &super::manifest::SavedRow| SnapshotRow {
            row: saved.row,
            generation: manifest.generations[narrow(saved.row)],
            length: saved.length,
            weight: saved.weight,
            inserted: saved.inserted,
            sampled: saved.sampled,
        };
        Snapshot {
            rows: manifest.rows.iter().map(row).collect(),
            generations: manifest.generations.clone(),
            free: manifest.free.clone(),
            order: manifest.order.clone(),
            random: manifest.random,
            committed: manifest.committed,
        }
    }
}

fn read_manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no checkpoint {}", path.display()))
        }
        _ => failed("read", &path, error),
    })?;
    Manifest::decode(&bytes, &path.display().to_string())
}

fn open_files(folder: &Path, manifest: &Manifest) -> Result<HashMap<u64, File>> {
    let mut files = HashMap::new();
    for group in &manifest.groups {
        if let Entry::Vacant(entry) = files.entry(group.file) {
            entry.insert(data::open(folder, group.file)?);
        }
    }
    Ok(files)
}

impl Store {
    /// Loads a store that was [saved](Self::save) in a folder, into the memory of this process only. See [`Checkpoint`]
    /// for more.
    ///
    /// # Errors
    /// The errors of [`Checkpoint::open`], [`Checkpoint::options`] and [`Checkpoint::load`].
    pub fn load(folder: impl AsRef<Path>) -> Result<Self> {
        let checkpoint = Checkpoint::open(folder)?;
        checkpoint.load(None, checkpoint.options()?)
    }
}
