//! A checkpoint under construction.

use std::path::{Path, PathBuf};

use flate2::Compression;

use super::files::DONE;
use super::folders::{draft_name, remove_checkpoint, remove_draft};
use super::name::Time;
use crate::Error;
use crate::record::RecordWriter;
use crate::storage::disk::{Disk, DurableFile};

/// A folder of records that becomes a checkpoint when it is [published](Self::publish). If it is dropped before that,
/// the folder is removed.
pub(super) struct Draft<'a> {
    disk: &'a dyn Disk,
    root: PathBuf,
    folder: PathBuf,
    name: String,
    /// The files written so far. The files stay open, and therefore locked, until they can no longer be mistaken for
    /// leftovers.
    files: Vec<Box<dyn DurableFile>>,
    is_published: bool,
}

/// A file of records in a [`Draft`].
pub(super) struct Records {
    path: PathBuf,
    writer: RecordWriter<Box<dyn DurableFile>>,
}

impl<'a> Draft<'a> {
    /// Starts the checkpoint for `time` in `root`, which is created if necessary.
    pub(super) fn begin(disk: &'a dyn Disk, root: &Path, time: Time) -> Result<Self, Error> {
        let name = time.to_name();
        let folder = root.join(draft_name(&name));
        disk.create_folders(&folder).map_err(|source| Error::io("create the folder", &folder, source))?;
        let (root, files) = (root.to_owned(), Vec::with_capacity(4));
        Ok(Self { disk, root, folder, name, files, is_published: false })
    }

    /// Starts a file of records.
    pub(super) fn records(&self, file: &str, level: Compression) -> Result<Records, Error> {
        let path = self.folder.join(file);
        Ok(Records { writer: RecordWriter::new(self.create(&path)?, level), path })
    }

    /// Finishes a file and makes it durable.
    pub(super) fn finish(&mut self, records: Records) -> Result<(), Error> {
        let Records { path, writer } = records;
        let file = writer.finish().map_err(|source| Error::io("write", &path, source))?;
        self.keep(&path, file)
    }

    /// Makes the draft the newest checkpoint, and returns its path.
    pub(super) fn publish(mut self) -> Result<PathBuf, Error> {
        let done = self.folder.join(DONE);
        let file = self.create(&done)?;
        self.keep(&done, file)?;
        self.sync(&self.folder)?;
        let path = self.root.join(&self.name);
        let renamed = self.disk.rename(&self.folder, &path);
        renamed.map_err(|source| Error::io("publish the checkpoint as", &path, source))?;
        self.is_published = true;
        match self.sync(&self.root) {
            Ok(()) => Ok(path),
            Err(error) => {
                self.withdraw(&path);
                Err(error)
            }
        }
    }

    /// Removes the published checkpoint, because the save fails, and the previous checkpoint must remain the newest.
    fn withdraw(&self, path: &Path) {
        if let Err(error) = remove_checkpoint(self.disk, path) {
            tracing::warn!(%error, "cannot clean up after a failed checkpoint");
        }
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DurableFile>, Error> {
        self.disk.create_file(path).map_err(|source| Error::io("write", path, source))
    }

    fn keep(&mut self, path: &Path, mut file: Box<dyn DurableFile>) -> Result<(), Error> {
        file.sync().map_err(|source| Error::io("write", path, source))?;
        self.files.push(file);
        Ok(())
    }

    fn sync(&self, folder: &Path) -> Result<(), Error> {
        self.disk.sync_folder(folder).map_err(|source| Error::io("write the folder", folder, source))
    }
}

impl Records {
    pub(super) fn append(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.writer.append(payload).map_err(|source| Error::io("write", &self.path, source))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            self.files.clear();
            remove_draft(self.disk, &self.folder);
        }
    }
}
