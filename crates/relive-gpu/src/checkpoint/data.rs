//! The files with the bytes of rows.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::manifest::{Extent, Group, GroupRow};
use crate::bytes::{narrow, wide};
use crate::error::{Error, Result};
use crate::memory::files::{self, failed};
use crate::memory::layout::{PAGE, round_up};
use crate::schema::Schema;
use crate::store::Pinned;

const MAGIC: [u8; 8] = *b"RLVROWS1";
/// The maximum number of pieces written in one call; the system allows 1,024.
const MAX_PIECES: usize = 512;
/// The maximum number of bytes written in one call: few enough that they are still in the cache after their checksum
/// has been computed.
const MAX_CALL_BYTES: usize = 1 << 20;

/// Returns the path of the file with the given number.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("rows-{number:010}.data"))
}

/// Returns the number of a file with the given name, or `None` for the name of any other file.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("rows-")?.strip_suffix(".data")?;
    let number = digits.parse().ok()?;
    (format!("{number:010}") == digits).then_some(number)
}

/// Assigns groups of rows to consecutive places in a new file, without computing their checksums yet.
pub(super) fn place(schema: &Schema, number: u64, groups: &[Vec<GroupRow>]) -> Result<Vec<Group>> {
    let mut end = PAGE;
    let mut placed = Vec::with_capacity(groups.len());
    for rows in groups {
        let steps: u64 = rows.iter().map(|row| row.length).sum();
        let mut extents = Vec::with_capacity(schema.columns().len());
        for column in 0..schema.columns().len() {
            let bytes = steps * schema.step_bytes(column);
            extents.push(Extent { offset: end, bytes, crc: 0 });
            end = round_up(end + bytes, PAGE)
                .ok_or_else(|| Error::invalid("the rows have more than 2^64 bytes"))?;
        }
        placed.push(Group { file: number, rows: rows.clone(), extents });
    }
    Ok(placed)
}

/// Creates the file with the given number. A partial file of an earlier attempt may exist.
pub(super) fn create(folder: &Path, number: u64) -> Result<File> {
    let path = path(folder, number);
    let file = files::create_again(&path).map_err(|error| failed("make", &path, error))?;
    let first = [MAGIC, number.to_le_bytes()].concat();
    files::write_at(&file, &first, 0, &path.display().to_string())?;
    Ok(file)
}

/// Writes the rows of a group, all of which are pinned in the group's order, and sets the checksums.
pub(super) fn write(file: &File, group: &mut Group, pinned: &Pinned) -> io::Result<()> {
    for (column, extent) in group.extents.iter_mut().enumerate() {
        let mut out = Pieces { file, at: extent.offset, pieces: Vec::with_capacity(MAX_PIECES), bytes: 0 };
        for row in 0..group.rows.len() {
            let bytes = pinned.bytes(row, column).map_err(io::Error::other)?;
            for piece in bytes.chunks(MAX_CALL_BYTES) {
                extent.crc = crc32c::crc32c_append(extent.crc, piece);
                out.push(piece)?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// Pieces for one write.
struct Pieces<'a> {
    file: &'a File,
    at: u64,
    pieces: Vec<IoSlice<'a>>,
    bytes: usize,
}

impl<'a> Pieces<'a> {
    fn push(&mut self, piece: &'a [u8]) -> io::Result<()> {
        if self.pieces.len() == MAX_PIECES || self.bytes + piece.len() > MAX_CALL_BYTES {
            self.flush()?;
        }
        self.bytes += piece.len();
        self.pieces.push(IoSlice::new(piece));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut left = &mut self.pieces[..];
        while !left.is_empty() {
            let written = match rustix::io::pwritev(self.file.as_fd(), left, self.at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.at += wide(written);
            IoSlice::advance_slices(&mut left, written);
        }
        self.pieces.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Returns whether the file with the given number exists and has the expected number of bytes.
pub(super) fn is_whole(folder: &Path, number: u64, bytes: u64) -> bool {
    fs::metadata(path(folder, number)).is_ok_and(|found| found.is_file() && found.len() >= bytes)
}

/// Opens the file with the given number for reading.
pub(super) fn open(folder: &Path, number: u64) -> Result<File> {
    let path = path(folder, number);
    // Opening a pipe would otherwise wait for its writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(&path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::corrupt(format!("the checkpoint's file {} is missing", path.display()))
        }
        _ => failed("open", &path, error),
    })?;
    if !file.metadata().map_err(|error| failed("look at", &path, error))?.is_file() {
        return Err(Error::corrupt(format!("{} is not a regular file", path.display())));
    }
    let mut first = [0; 16];
    file.read_exact_at(&mut first, 0).map_err(|error| unreadable(&path, 0, 16, error))?;
    if first[..8] != MAGIC || first[8..] != number.to_le_bytes() {
        return Err(Error::corrupt(format!("{} is not a file of rows with this number", path.display())));
    }
    Ok(file)
}

/// Reads an extent into a buffer, and verifies its checksum. A damaged extent must not allocate more memory than the
/// file has bytes.
pub(super) fn read(file: &File, path: &Path, extent: &Extent, buffer: &mut Vec<u8>) -> Result<()> {
    let found = file.metadata().map_err(|error| failed("look at", path, error))?.len();
    if extent.offset.checked_add(extent.bytes).is_none_or(|end| end > found) {
        return Err(ends_early(path, extent.offset, extent.bytes));
    }
    buffer.resize(narrow(extent.bytes), 0);
    file.read_exact_at(buffer, extent.offset)
        .map_err(|error| unreadable(path, extent.offset, extent.bytes, error))?;
    let found = crc32c::crc32c(buffer);
    if found != extent.crc {
        return Err(Error::corrupt(format!(
            "bytes {} to {} of {} have crc {found:08x}, but the manifest has {:08x}",
            extent.offset,
            extent.offset + extent.bytes,
            path.display(),
            extent.crc
        )));
    }
    Ok(())
}

fn unreadable(path: &Path, offset: u64, bytes: u64, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return ends_early(path, offset, bytes);
    }
    failed(&format!("read bytes {offset} to {} of", offset + bytes), path, error)
}

fn ends_early(path: &Path, offset: u64, bytes: u64) -> Error {
    Error::corrupt(format!("{} ends before byte {}", path.display(), u128::from(offset) + u128::from(bytes)))
}

/// Removes all data files of rows except those with a number in `kept`. Returns the number of removed files.
pub(super) fn remove_others(folder: &Path, kept: &[u64]) -> Result<u64> {
    let listed = fs::read_dir(folder).map_err(|error| failed("list", folder, error))?;
    let mut removed = 0;
    for entry in listed {
        let entry = entry.map_err(|error| failed("list", folder, error))?;
        let number = entry.file_name().to_str().and_then(number);
        if number.is_some_and(|number| !kept.contains(&number)) {
            fs::remove_file(entry.path()).map_err(|error| failed("remove", &entry.path(), error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn an_extent_beyond_the_file_is_refused_before_memory_is_allocated() {
        let folder = tempfile::tempdir().unwrap();
        let file = create(folder.path(), 1).unwrap();
        let mut buffer = Vec::new();
        for (offset, bytes, end) in
            [(16, 1 << 60, (1_u128 << 60) + 16), (u64::MAX, 2, (1 << 64) + 1), (9, 8, 17)]
        {
            let extent = Extent { offset, bytes, crc: 0 };
            let error = read(&file, Path::new("it"), &extent, &mut buffer).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(error.to_string(), format!("it ends before byte {end}"));
        }
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn links_pipes_and_folders_are_not_row_files() {
        let folder = tempfile::tempdir().unwrap();
        let (target, place) = (folder.path().join("target"), path(folder.path(), 1));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &place).unwrap();
        create(folder.path(), 1).unwrap();
        open(folder.path(), 1).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        fs::remove_file(&place).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &place, rustix::fs::Mode::RUSR).unwrap();
        let error = open(folder.path(), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().ends_with("is not a regular file"), "{error}");
    }

    #[test]
    fn only_own_file_names_are_row_files() {
        assert_eq!(number("rows-0000000012.data"), Some(12));
        for other in ["rows-12.data", "rows-00000000012.data", "rows-000000001x.data", "store.manifest"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
