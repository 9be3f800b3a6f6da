//! Writes a checkpoint file.

use std::io::IoSlice;

use super::block::{BlockFault, BlockHead, Kind};
use super::{Description, walk};
use crate::storage::{Storage, Upload};
use crate::{Error, ErrorKind};

/// A checkpoint file under construction. If it is dropped before it has been [finished](Self::finish), it leaves
/// nothing behind.
pub(crate) struct ManifestWriter {
    upload: Box<dyn Upload>,
    /// The file's name in messages.
    file: String,
    size_bytes: u64,
    blocks: u32,
    /// The offset of the last block.
    last: u64,
}

impl ManifestWriter {
    /// Starts the named file.
    pub(crate) fn begin(storage: &dyn Storage, name: &str, description: &Description) -> Result<Self, Error> {
        let file = storage.describe(name);
        let upload = storage.create(name).map_err(|source| Error::storage("write", &file, source))?;
        let mut writer = Self { upload, file, size_bytes: 0, blocks: 0, last: 0 };
        writer.write(&[&walk::header()])?;
        writer.description(description)?;
        Ok(writer)
    }

    /// Adds a block.
    pub(crate) fn block(&mut self, kind: Kind, subject: u32, count: u32, raw: Vec<u8>) -> Result<(), Error> {
        let encoded = BlockHead::encode(kind, self.blocks, subject, count, raw);
        let (head, stored) = encoded.map_err(|fault| self.unwritable(&fault))?;
        self.last = self.size_bytes;
        self.write(&[&head.to_bytes(), &stored])?;
        self.blocks += 1;
        Ok(())
    }

    /// Publishes the checkpoint. Returns the size of the checkpoint's file.
    pub(crate) fn finish(mut self, description: &Description) -> Result<u64, Error> {
        self.description(description)?;
        self.write(&[&walk::end(self.last, self.blocks)])?;
        let Self { upload, file, size_bytes, .. } = self;
        upload.finish().map_err(|source| Error::storage("write", &file, source))?;
        Ok(size_bytes)
    }

    fn description(&mut self, description: &Description) -> Result<(), Error> {
        let tables = u32::try_from(description.tables.len()).unwrap_or(u32::MAX);
        self.block(Kind::Description, 0, tables, description.encode())
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let written = self.upload.write(&mut slices);
        written.map_err(|source| Error::storage("write", &self.file, source))?;
        self.size_bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    fn unwritable(&self, fault: &BlockFault) -> Error {
        Error::plain(ErrorKind::Io, format!("cannot write {}: {fault}", self.file))
    }
}
