//! Inspects checkpoints without a lock.

use std::fmt;
use std::sync::Arc;

use relive_table::CheckpointProgress;

use super::inspect::inspect;
use super::prune::prune;
use super::verify::verify;
use super::{CheckpointInfo, CheckpointSummary, Inspection, Pruned, Report};
use crate::manifest::read_description;
use crate::native::{Listing, load};
use crate::storage::{self, Storage};
use crate::{Error, ErrorKind, Format, LoadOptions, Loaded, names};

/// The checkpoints of a root, or one of them, for inspection. Inspection takes no lock, because a server may be writing
/// there.
///
/// ```no_run
/// use relive_checkpoint::Catalog;
/// for checkpoint in Catalog::open("/var/lib/relive")?.checkpoints()? {
///     println!("{} {:?}", checkpoint.location, checkpoint.summary.map(|summary| summary.items));
/// }
/// # Ok::<(), relive_checkpoint::Error>(())
/// ```
pub struct Catalog {
    storage: Arc<dyn Storage>,
    /// The number of the named checkpoint.
    number: Option<u64>,
}

impl Catalog {
    /// Returns the checkpoints at `location`, a path or the URL of a bucket. It refers either to a root or to one
    /// checkpoint in a root, which is a file named `checkpoint-….relive`.
    ///
    /// # Errors
    /// `Location` for an unknown kind of URL.
    pub fn open(location: &str) -> Result<Self, Error> {
        let location = location.trim_end_matches('/');
        let (root, name) = names::split_root(location);
        match names::checkpoint_number(name) {
            Some(number) => Ok(Self { storage: storage::open(root)?, number: Some(number) }),
            None => Ok(Self { storage: storage::open(location)?, number: None }),
        }
    }

    #[cfg(test)]
    pub(crate) fn on(storage: Arc<dyn Storage>) -> Self {
        Self { storage, number: None }
    }

    /// Returns all checkpoints of the root, oldest first.
    ///
    /// # Errors
    /// The root cannot be listed. If a checkpoint is unreadable, the error is in its [`CheckpointInfo::summary`].
    pub fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, Error> {
        let listing = Listing::read(self.storage.as_ref())?;
        Ok(listing.checkpoints.iter().map(|(number, size)| self.info(*number, *size)).collect())
    }

    /// Loads the named checkpoint, or the newest one. Returns `None` if there are none.
    ///
    /// # Errors
    /// The errors of [`Store::load_latest`](crate::Store::load_latest).
    pub fn load(&self, options: &LoadOptions) -> Result<Option<Loaded>, Error> {
        let Some(number) = self.chosen()? else { return Ok(None) };
        load(self.storage.as_ref(), &names::checkpoint_name(number), options, None).map(Some)
    }

    /// Reads and checks every byte of the named checkpoint, or of the newest one, and of the segments to which it
    /// refers. `progress` counts items and bytes.
    ///
    /// # Errors
    /// `Location` if there is no checkpoint; `Damaged` if it has a later version or no part of it can be read. Any
    /// other damage is listed in the report.
    pub fn verify(&self, progress: &CheckpointProgress) -> Result<Report, Error> {
        verify(self.storage.as_ref(), &self.required()?, progress)
    }

    /// Shows the named checkpoint, or the newest one, with up to `sample` items of each table: the first and the last
    /// ones, in order.
    ///
    /// # Errors
    /// `Location` if there is no checkpoint; `Damaged` if its file, or a chunk of a shown item, is damaged; `Io` if the
    /// storage refuses an operation.
    pub fn inspect(&self, sample: usize) -> Result<Inspection, Error> {
        inspect(self.storage.as_ref(), &self.required()?, sample)
    }

    /// Removes all checkpoints of the root except the newest `keep` (at least one), and removes all files to which no
    /// remaining checkpoint refers. Other files are kept. The whole root is always pruned, even if `location` names a
    /// checkpoint.
    ///
    /// # Errors
    /// `InUse` if a server is writing there; `Damaged` if a remaining checkpoint cannot be read, because its references
    /// are then unknown; `Io` if the storage refuses an operation.
    pub fn prune(&self, keep: usize) -> Result<Pruned, Error> {
        prune(self.storage.as_ref(), keep)
    }

    pub(super) fn info(&self, number: u64, size_bytes: u64) -> CheckpointInfo {
        let name = names::checkpoint_name(number);
        let summary = read_description(self.storage.as_ref(), &name);
        let summary = summary.map(|(description, size)| CheckpointSummary::new(&description, size));
        let written_at = summary.as_ref().ok().map(|summary| summary.created_at);
        let location = self.storage.describe(&name);
        CheckpointInfo { location, format: Format::Relive, written_at, size_bytes, summary }
    }

    /// Returns whether the named checkpoint, or the newest one, refers to this file, given as a path or URL.
    pub(crate) fn refers_to(&self, file: &str) -> Result<bool, Error> {
        let (description, _) = read_description(self.storage.as_ref(), &self.required()?)?;
        Ok(description.segments.iter().any(|segment| file.ends_with(&segment.id.file_name())))
    }

    fn chosen(&self) -> Result<Option<u64>, Error> {
        match self.number {
            Some(number) => Ok(Some(number)),
            None => Ok(Listing::read(self.storage.as_ref())?.newest()),
        }
    }

    fn required(&self) -> Result<String, Error> {
        let none = || {
            let text = format!("{}: there is no checkpoint here", self.storage.describe(""));
            Error::plain(ErrorKind::Location, text)
        };
        self.chosen()?.map(names::checkpoint_name).ok_or_else(none)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("root", &self.storage.describe(""))
            .field("number", &self.number)
            .finish()
    }
}
