//! Zip archives as numpy writes them: stored or deflated files, below 4 GiB.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::{Result, RlError};

/// The size of the record at the end of an archive, without its comment.
const END: usize = 22;
const END_SIGNATURE: u32 = 0x0605_4b50;
/// The maximum size of an archive's comment.
const MAX_COMMENT: u64 = 65_535;
/// The size of a directory entry, without names and comments.
const ENTRY: usize = 46;
const ENTRY_SIGNATURE: u32 = 0x0201_4b50;
/// The size of the header before a file's content, without names.
const HEAD: usize = 30;
const HEAD_SIGNATURE: u32 = 0x0403_4b50;
/// The maximum size of an archive, because larger ones need the ZIP64 format.
const MAX_BYTES: u64 = u32::MAX as u64;

/// An archive with its parsed directory.
pub(super) struct Archive {
    file: File,
    size_bytes: u64,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    method: u16,
    crc: u32,
    packed_bytes: u32,
    size_bytes: u32,
    offset: u32,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Archive> {
        let refused = |reason: String| RlError::recording(path, reason);
        let unread = |error: std::io::Error| RlError::recording(path, error);
        let mut file = File::open(path).map_err(unread)?;
        let size_bytes = file.metadata().map_err(unread)?.len();
        if size_bytes > MAX_BYTES {
            return Err(refused("it is larger than 4 GiB; save it as several files".to_owned()));
        }
        let entries = directory(&mut file, size_bytes).map_err(refused)?;
        Ok(Archive { file, size_bytes, entries })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Returns the content of a file, or `None` if there is no such file.
    pub(super) fn read(&mut self, name: &str) -> Option<Result<Vec<u8>, String>> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(unpacked(&mut self.file, self.size_bytes, entry))
    }
}

fn directory(file: &mut File, size_bytes: u64) -> Result<Vec<Entry>, String> {
    let no_archive = || {
        "it is not a numpy .npz file (not a zip archive); in Python, rl.save_dataset converts other formats"
            .to_owned()
    };
    let begin = size_bytes.saturating_sub(END as u64 + MAX_COMMENT);
    let tail = read_at(file, begin, size_bytes - begin)?;
    let is_end = |place: &usize| number32(&tail, *place) == Some(END_SIGNATURE);
    let end = (0..tail.len().saturating_sub(END - 1)).rev().find(is_end).ok_or_else(no_archive)?;
    let damaged = || "its directory is damaged".to_owned();
    let count = number16(&tail, end + 10).ok_or_else(damaged)?;
    let length = number32(&tail, end + 12).ok_or_else(damaged)?;
    let offset = number32(&tail, end + 16).ok_or_else(damaged)?;
    if u64::from(offset) + u64::from(length) > size_bytes {
        return Err(damaged());
    }
    let bytes = read_at(file, u64::from(offset), u64::from(length))?;
    let (mut entries, mut place) = (Vec::new(), 0);
    for _ in 0..count {
        let (entry, next) = entry(&bytes, place).ok_or_else(damaged)?;
        entries.push(entry);
        place = next;
    }
    Ok(entries)
}

/// Parses the directory entry at an offset. Returns it with the offset of the next one.
fn entry(bytes: &[u8], at: usize) -> Option<(Entry, usize)> {
    (number32(bytes, at)? == ENTRY_SIGNATURE).then_some(())?;
    let [name, extra, comment] = [28, 30, 32].map(|place| number16(bytes, at + place).map(usize::from));
    let name_begin = at + ENTRY;
    let name_end = name_begin.checked_add(name?)?;
    let entry = Entry {
        name: String::from_utf8_lossy(bytes.get(name_begin..name_end)?).into_owned(),
        method: number16(bytes, at + 10)?,
        crc: number32(bytes, at + 16)?,
        packed_bytes: number32(bytes, at + 20)?,
        size_bytes: number32(bytes, at + 24)?,
        offset: number32(bytes, at + 42)?,
    };
    Some((entry, name_end.checked_add(extra?)?.checked_add(comment?)?))
}

fn unpacked(file: &mut File, archive_bytes: u64, entry: &Entry) -> Result<Vec<u8>, String> {
    let damaged = || "it is damaged".to_owned();
    let offset = u64::from(entry.offset);
    let head = read_at(file, offset, HEAD as u64)?;
    if number32(&head, 0) != Some(HEAD_SIGNATURE) {
        return Err(damaged());
    }
    let [name, extra] = [26, 28].map(|place| number16(&head, place).map(u64::from));
    let begin = offset + HEAD as u64 + name.ok_or_else(damaged)? + extra.ok_or_else(damaged)?;
    if begin + u64::from(entry.packed_bytes) > archive_bytes {
        return Err(damaged());
    }
    let packed = read_at(file, begin, u64::from(entry.packed_bytes))?;
    let bytes = match entry.method {
        0 => packed,
        8 => {
            let mut bytes = Vec::new();
            // Reads up to one byte beyond the declared size, to detect a file that is larger than declared.
            let most = u64::from(entry.size_bytes) + 1;
            DeflateDecoder::new(&packed[..]).take(most).read_to_end(&mut bytes).map_err(|_| damaged())?;
            bytes
        }
        method => {
            return Err(format!(
                "it uses compression method {method}; only stored and deflated arrays are supported"
            ));
        }
    };
    let mut crc = Crc::new();
    crc.update(&bytes);
    if bytes.len() as u64 != u64::from(entry.size_bytes) || crc.sum() != entry.crc {
        return Err(damaged());
    }
    Ok(bytes)
}

fn read_at(file: &mut File, offset: u64, count: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(count).read_to_end(&mut bytes));
    match read {
        Ok(found) if found as u64 == count => Ok(bytes),
        Ok(_) => Err("it is truncated".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
