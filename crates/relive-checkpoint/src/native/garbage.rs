//! The files of a root, and the removal of those that are no longer needed.

use std::collections::HashSet;
use std::io;

use relive_table::Timestamp;

use crate::fast_map::FastMap;
use crate::manifest::{Description, read_description};
use crate::segment::{FOLDER, SegmentId};
use crate::storage::Storage;
use crate::{Error, names};

/// All of Relive's files in a root.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The checkpoints by number, oldest first, with the sizes of their files.
    pub(crate) checkpoints: Vec<(u64, u64)>,
    /// The segments, with the sizes of their files.
    pub(crate) segments: FastMap<SegmentId, u64>,
    /// Unfinished files.
    pub(crate) leftovers: Vec<String>,
}

/// The result of a garbage collection.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Numbers of checkpoints.
    pub(crate) checkpoints: Vec<u64>,
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
}

impl Listing {
    pub(crate) fn read(storage: &dyn Storage) -> Result<Self, Error> {
        let mut found = Self::default();
        for folder in ["", FOLDER] {
            let files = storage.list(folder);
            let files = files.map_err(|source| Error::storage("list", &storage.describe(folder), source))?;
            for file in files {
                if let Some(number) = names::checkpoint_number(&file.name) {
                    found.checkpoints.push((number, file.size_bytes));
                } else if let Some(id) = SegmentId::from_file_name(&file.name) {
                    found.segments.insert(id, file.size_bytes);
                } else if names::is_leftover(&file.name) {
                    found.leftovers.push(file.name);
                }
            }
        }
        found.checkpoints.sort_unstable();
        Ok(found)
    }

    pub(crate) fn newest(&self) -> Option<u64> {
        self.checkpoints.last().map(|(number, _)| *number)
    }

    /// Returns the latest readable time of a checkpoint.
    pub(crate) fn latest_time(&self, storage: &dyn Storage) -> Option<Timestamp> {
        let time =
            |(number, _): &(u64, u64)| read_description(storage, &names::checkpoint_name(*number)).ok();
        self.checkpoints.iter().rev().find_map(time).map(|(description, _)| description.created_at)
    }

    /// Removes all checkpoints except the newest `keep`, and all files to which no remaining checkpoint refers. The
    /// caller must hold the lock, and must not write at the same time.
    pub(crate) fn collect(mut self, storage: &dyn Storage, keep: usize) -> Result<Collected, Error> {
        let mut collected = Collected::default();
        let old = self.checkpoints.len().saturating_sub(keep.max(1));
        for (number, size) in self.checkpoints.drain(..old) {
            remove(storage, &names::checkpoint_name(number))?;
            collected.checkpoints.push(number);
            collected.bytes += size;
        }
        for name in &self.leftovers {
            remove(storage, name)?;
        }
        if self.segments.is_empty() {
            return Ok(collected);
        }
        let needed = self.needed(storage)?;
        for (id, size) in self.segments.iter().filter(|(id, _)| !needed.contains(id)) {
            remove(storage, &id.file_name())?;
            collected.segments += 1;
            collected.bytes += size;
        }
        Ok(collected)
    }

    /// Returns the segments to which checkpoints refer.
    fn needed(&self, storage: &dyn Storage) -> Result<HashSet<SegmentId>, Error> {
        let mut needed = HashSet::new();
        for (number, _) in &self.checkpoints {
            let (description, _): (Description, u64) =
                read_description(storage, &names::checkpoint_name(*number))?;
            needed.extend(description.segments.iter().map(|segment| segment.id));
        }
        Ok(needed)
    }
}

/// Removes a file, which may already have been removed.
pub(super) fn remove(storage: &dyn Storage, name: &str) -> Result<(), Error> {
    match storage.remove(name) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::storage("remove", &storage.describe(name), source))
        }
        _ => Ok(()),
    }
}
