//! A segment: the header, arrays and tables of a store, as all processes see them.
#![expect(
    unsafe_code,
    reason = "addresses of the mapping become atomics and rows here; each block says why it is sound"
)]

use std::fs::File;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::files::{self, COLUMN_MAGIC, MAKING_MAGIC, Name};
use super::futex;
use super::header::{FIXED_BYTES, Header, MAGIC, VERSION};
use super::identity::Identity;
use super::layout::{PAGE, SCHEMA_AT, Table, Tier};
use super::mapping::Mapping;
use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::schema::Schema;
use relive_gpu_protocol::slot::Slot;

const STATE_AT: u64 = 1024;
const IDENTITY_AT: u64 = 1032;
const DOORBELL_AT: u64 = 1152;
const RELEASES_AT: u64 = 1280;
const EXHAUSTED_AT: u64 = 1408;
const COMMITTED_AT: u64 = 1536;
const CHANGES_AT: u64 = 1664;
/// The segment's state: in use.
const IN_USE: u64 = 1;
const CLOSED: u64 = 2;
/// The offset of the owner's identity in a column's file.
const COLUMN_IDENTITY_AT: u64 = 16;
/// The maximum number of bytes of a segment that are read as its header.
const MAX_HEADER_BYTES: u64 = 32 << 20;

/// The processes that can attach to a new segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach<'a> {
    /// Processes that attach by its name.
    Named(&'a str),
    /// Processes that receive its descriptor.
    Descriptor,
    /// Only this process.
    Process,
}

/// How memory is prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) huge_pages: bool,
    pub(crate) touch_threads: usize,
}

/// A mapped segment, created by this process or another.
#[derive(Debug)]
pub(crate) struct Segment {
    header: Header,
    map: Mapping,
    /// Mappings of columns in files.
    files: Vec<Option<Mapping>>,
    /// `None` for memory of this process alone.
    file: Option<File>,
    what: String,
}

impl Segment {
    /// Creates a segment. Dropping the second returned value removes the segment's names.
    pub(crate) fn create(header: Header, reach: Reach<'_>, ready: Ready) -> Result<(Self, Vec<Name>)> {
        let bytes = header.layout.segment_bytes;
        let (file, name, what) = match reach {
            Reach::Process => (None, None, "the private segment".to_owned()),
            Reach::Descriptor => (Some(files::anonymous(bytes)?), None, "the anonymous segment".to_owned()),
            Reach::Named(name) => {
                let path = files::shared_memory(name)?;
                let (file, guard) = files::create(&path, bytes, IDENTITY_AT)?;
                (Some(file), Some(guard), format!("the segment {name:?}"))
            }
        };
        let map = match &file {
            Some(file) => Mapping::new(file, bytes, &what)?,
            None => Mapping::private(bytes, &what)?,
        };
        if ready.huge_pages {
            map.advise_huge();
        }
        map.touch(ready.touch_threads, file.as_ref(), &what)?;
        let mut names: Vec<Name> = name.into_iter().collect();
        let files = make_columns(&header, &mut names)?;
        let segment = Self { header, map, files, file, what };
        segment.publish()?;
        Ok((segment, names))
    }

    /// Writes the header, with its first bytes last.
    fn publish(&self) -> Result<()> {
        if let Some(file) = &self.file {
            let (fixed, schema) = self.header.encode();
            files::write_at(file, &schema, SCHEMA_AT, &self.what)?;
            files::write_at(file, &fixed[8..], 8, &self.what)?;
            files::write_at(file, &fixed[..8], 0, &self.what)?;
        }
        self.word(IDENTITY_AT).store(Identity::current()?.word(), Ordering::Release);
        self.word(STATE_AT).store(IN_USE, Ordering::Release);
        Ok(())
    }

    /// Attaches to the segment with the given name.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let file = files::open_own(&files::shared_memory(name)?)?;
        Self::attach(file, format!("the segment {name:?}"))
    }

    /// Attaches to the segment behind a descriptor.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Result<Self> {
        Self::attach(files::from_descriptor(descriptor)?, "the anonymous segment".to_owned())
    }

    fn attach(file: File, what: String) -> Result<Self> {
        check_state(&file, &what)?;
        // The header is read after the state, which is written last, so the header is complete.
        let bytes = files::beginning(&file, SCHEMA_AT, &what)?;
        let schema_bytes =
            bytes.get(40..48).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let header_bytes = SCHEMA_AT.saturating_add(schema_bytes).min(MAX_HEADER_BYTES);
        let header = Header::decode(&files::beginning(&file, header_bytes, &what)?, &what)?;
        let found =
            file.metadata().map_err(|error| Error::system(format_args!("look at {what}"), error))?.len();
        let bytes = header.layout.segment_bytes;
        if found != bytes {
            return Err(Error::corrupt(format!("{what} has {found} bytes, but its header says {bytes}")));
        }
        let map = Mapping::new(&file, bytes, &what)?;
        let files = open_columns(&header)?;
        let segment = Self { header, map, files, file: Some(file), what };
        segment.check_owner()?;
        Ok(segment)
    }

    /// Fails if the schema differs from the caller's.
    pub(crate) fn expect_schema(&self, expected: &Schema) -> Result<()> {
        let found = &self.header.schema;
        if found != expected {
            return Err(Error::invalid(format!(
                "{} has {}; this program expects {}",
                self.what,
                found.describe(),
                expected.describe()
            )));
        }
        Ok(())
    }

    /// Fails once the controller has closed the segment, or has died.
    pub(crate) fn check_owner(&self) -> Result<()> {
        if self.word(STATE_AT).load(Ordering::Acquire) == CLOSED {
            return Err(Error::unavailable(format!("the controller closed {}", self.what)));
        }
        let owner = Identity::from_word(self.word(IDENTITY_AT).load(Ordering::Acquire));
        if !owner.is_alive() {
            let pid = owner.pid();
            return Err(Error::unavailable(format!(
                "process {pid}, the controller of {}, has ended; create the store again, and attach again",
                self.what
            )));
        }
        Ok(())
    }

    /// Marks the segment as closed, and wakes all waiters.
    pub(crate) fn close(&self) {
        self.word(STATE_AT).store(CLOSED, Ordering::Release);
        for slot in self.slots() {
            futex::wake(&slot.turn);
        }
        futex::wake(self.releases().0);
        futex::wake(self.doorbell().0);
    }

    /// Returns the description of the segment that errors use.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns whether a column is in a file.
    pub(crate) fn has_files(&self) -> bool {
        self.files.iter().any(Option::is_some)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.header.schema
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.header.shape.capacity
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn states(&self) -> &[AtomicU64] {
        self.words(self.header.layout.states, self.capacity())
    }

    pub(crate) fn weights(&self) -> &[AtomicU32] {
        self.words(self.header.layout.weights, self.capacity())
    }

    pub(crate) fn lengths(&self) -> &[AtomicU32] {
        self.words(self.header.layout.lengths, self.capacity())
    }

    pub(crate) fn inserted(&self) -> &[AtomicU64] {
        self.words(self.header.layout.inserted, self.capacity())
    }

    pub(crate) fn sampled(&self) -> &[AtomicU64] {
        self.words(self.header.layout.sampled, self.capacity())
    }

    pub(crate) fn claims(&self) -> &[AtomicU64] {
        self.words(self.header.layout.claims, u64::from(self.header.shape.readers))
    }

    /// Returns the pin counts of a reader.
    pub(crate) fn pins(&self, reader: usize) -> &[AtomicU32] {
        let capacity = self.capacity();
        let all: &[AtomicU32] =
            self.words(self.header.layout.pins, capacity * u64::from(self.header.shape.readers));
        &all[reader * narrow(capacity)..(reader + 1) * narrow(capacity)]
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        self.words(self.header.layout.slots, u64::from(self.header.shape.writers))
    }

    /// Returns the word that writers change to wake the controller, and the word that indicates whether the controller
    /// is waiting for such a change.
    pub(crate) fn doorbell(&self) -> (&AtomicU32, &AtomicU32) {
        (self.half_word(DOORBELL_AT), self.half_word(DOORBELL_AT + 4))
    }

    /// Returns the number of released pins, and the number of threads that are waiting for it to change.
    pub(crate) fn releases(&self) -> (&AtomicU32, &AtomicU32) {
        (self.half_word(RELEASES_AT), self.half_word(RELEASES_AT + 4))
    }

    pub(crate) fn exhausted(&self) -> &AtomicU64 {
        self.word(EXHAUSTED_AT)
    }

    pub(crate) fn committed(&self) -> &AtomicU64 {
        self.word(COMMITTED_AT)
    }

    /// Returns the number of changes to weights so far, for holders of a copy.
    pub(crate) fn changes(&self) -> u64 {
        self.word(CHANGES_AT).load(Ordering::Acquire)
    }

    /// Counts a change to a weight after it was made.
    pub(crate) fn note_change(&self) {
        self.word(CHANGES_AT).fetch_add(1, Ordering::Release);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }

    fn half_word(&self, at: u64) -> &AtomicU32 {
        &self.words(at, 1)[0]
    }

    /// Returns `count` shared words from an offset that the layout has assigned.
    fn words<T: SharedWord>(&self, at: u64, count: u64) -> &[T] {
        let bytes = count * size_of::<T>() as u64;
        assert!(
            at + bytes <= self.map.len() && at.is_multiple_of(align_of::<T>() as u64),
            "as the layout specifies"
        );
        // SAFETY: the range is within the mapping, whose start is aligned to 2 MiB and which outlives the borrow. A
        // `SharedWord` consists of atomics, so other threads and processes may change it, and every bit pattern is
        // valid.
        unsafe { std::slice::from_raw_parts(self.map.start().add(narrow(at)).cast::<T>(), narrow(count)) }
    }

    /// Returns a column's table, and its start in this process.
    pub(crate) fn table(&self, column: usize) -> (Table, *mut u8) {
        let table = self.header.layout.tables[column];
        let map = self.files[column].as_ref().unwrap_or(&self.map);
        assert!(table.offset + table.bytes <= map.len(), "as the layout specifies");
        (table, map.start().wrapping_add(narrow(table.offset)))
    }

    /// Returns a row's bytes in a column: all steps, without the padding after them.
    ///
    /// The caller must have pinned the row, or be its writer, for as long as it uses the address.
    pub(crate) fn row(&self, column: usize, row: u64) -> (*mut u8, u64) {
        let (table, start) = self.table(column);
        assert!(row < self.capacity(), "row {row} of {}", self.capacity());
        (start.wrapping_add(narrow(row * table.stride)), self.schema().max_steps() * table.step_bytes)
    }
}

/// Writes to a row that the caller owns exclusively.
///
/// # Safety
/// `start` is an address from [`Segment::row`] with room for the bytes, and nothing else accesses them.
pub(crate) unsafe fn write(start: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller guarantees that the bytes are within a mapped row that nothing else accesses.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
}

/// Reads from a row that nothing writes to.
///
/// # Safety
/// `start` is an address from [`Segment::row`], followed by as many bytes of the row, and nothing writes to them.
pub(crate) unsafe fn read(start: *const u8, bytes: &mut [u8]) {
    // SAFETY: the caller guarantees that the bytes are within a mapped row that nothing writes to.
    unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), bytes.len()) };
}

/// A type that may refer directly to shared memory.
///
/// # Safety
/// The type must consist of atomics, have no invalid bit patterns, and be aligned to 128 or less.
unsafe trait SharedWord {}
// SAFETY: an atomic integer.
unsafe impl SharedWord for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl SharedWord for AtomicU64 {}
// SAFETY: atomic integers, 256 bytes of them, aligned to 128.
unsafe impl SharedWord for Slot {}

/// Refuses files that are not segments, and segments that are not ready.
fn check_state(file: &File, what: &str) -> Result<()> {
    let word = |at| -> Result<Option<[u8; 8]>> { files::word(file, at, what) };
    let state = word(STATE_AT)?.map_or(0, u64::from_le_bytes);
    let first = word(0)?.unwrap_or(MAKING_MAGIC);
    match state {
        _ if first != MAKING_MAGIC && first != MAGIC => {
            Err(Error::corrupt(format!("{what} is not a store: it starts with {first:02x?}")))
        }
        0 => {
            let creator = word(IDENTITY_AT)?.map_or(0, u64::from_le_bytes);
            let creator = Some(Identity::from_word(creator)).filter(|creator| creator.word() != 0);
            Err(Error::unavailable(match creator {
                Some(dead) if !dead.is_alive() => {
                    format!("process {} ended while it created {what}; create the store again", dead.pid())
                }
                _ => format!("{what} is still being created; try again"),
            }))
        }
        IN_USE | CLOSED => Ok(()),
        other => Err(Error::corrupt(format!("{what} has the state {other}, but it must be 0 to {CLOSED}"))),
    }
}

/// Creates the files of columns that are stored in files.
fn make_columns(header: &Header, names: &mut Vec<Name>) -> Result<Vec<Option<Mapping>>> {
    each_file(header, |path, bytes| {
        let (file, name) = files::create(path, bytes, COLUMN_IDENTITY_AT)?;
        names.push(name);
        let what = path.display().to_string();
        files::reserve(&file, &what, bytes)?;
        files::write_at(&file, &bytes.to_le_bytes(), 24, &what)?;
        files::write_at(&file, &VERSION.to_le_bytes(), 8, &what)?;
        files::write_at(&file, &COLUMN_MAGIC, 0, &what)?;
        Mapping::new(&file, bytes, &what)
    })
}

fn open_columns(header: &Header) -> Result<Vec<Option<Mapping>>> {
    each_file(header, |path, bytes| {
        let file = files::open_own(path)?;
        let what = path.display().to_string();
        let first = files::beginning(&file, FIXED_BYTES as u64, &what)?;
        let stored =
            first.get(24..32).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let found = file.metadata().map_err(|error| files::failed("look at", path, error))?.len();
        if !first.starts_with(&COLUMN_MAGIC) || stored != bytes || found != bytes {
            return Err(Error::corrupt(format!(
                "{what} is not the file of its column: it has {found} bytes, and its header says {stored}, but the segment expects {bytes}"
            )));
        }
        Mapping::new(&file, bytes, &what)
    })
}

fn each_file(
    header: &Header,
    mut map: impl FnMut(&Path, u64) -> Result<Mapping>,
) -> Result<Vec<Option<Mapping>>> {
    let columns = header.tiers.iter().zip(&header.layout.tables);
    columns
        .map(|(tier, table)| match tier {
            Tier::Host => Ok(None),
            Tier::File(path) => {
                let bytes = (table.offset + table.bytes).next_multiple_of(PAGE);
                map(path, bytes).map(Some)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use relive_tensor::DType;

    use super::super::layout::Shape;
    use super::*;
    use crate::error::ErrorKind;
    use crate::schema::Column;

    /// Returns the first pages of a segment in use.
    fn image() -> File {
        let schema = Schema::new(2, vec![Column::new("a", DType::UInt8, &[])]).unwrap();
        let shape = Shape { capacity: 3, readers: 1, writers: 0, rank: 0, ranks: 1, max_times_sampled: 0 };
        let header = Header::new(schema, shape, vec![Tier::Host]).unwrap();
        let (fixed, schema) = header.encode();
        let file = tempfile::tempfile().unwrap();
        file.set_len(header.layout.segment_bytes).unwrap();
        file.write_all_at(&fixed, 0).unwrap();
        file.write_all_at(&schema, SCHEMA_AT).unwrap();
        file.write_all_at(&Identity::current().unwrap().word().to_le_bytes(), IDENTITY_AT).unwrap();
        file.write_all_at(&IN_USE.to_le_bytes(), STATE_AT).unwrap();
        file
    }

    fn attached(file: File) -> Result<Segment> {
        Segment::attach(file, "it".to_owned())
    }

    #[test]
    fn an_unfinished_segment_is_distinguished_from_other_files() {
        attached(image()).unwrap();
        let written = |bytes: &[u8], at| {
            let file = image();
            file.write_all_at(bytes, at).unwrap();
            attached(file).unwrap_err()
        };
        // States that a file can have before its header is complete.
        let making = tempfile::tempfile().unwrap();
        let states = [
            (0, Vec::new()),
            (0, MAKING_MAGIC.to_vec()),
            (12, vec![0; 4084]),
            (40, 9_u64.to_le_bytes().to_vec()),
        ];
        for (at, bytes) in states {
            making.write_all_at(&bytes, at).unwrap();
            let error = attached(making.try_clone().unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("is still being created"), "{error}");
        }
        for (error, text) in [
            (written(b"precious", 0), "is not a store"),
            (written(&77_u64.to_le_bytes(), STATE_AT), "has the state 77"),
            (written(&[9], 64), "has crc"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(text), "{error}");
        }
        let closed = written(&CLOSED.to_le_bytes(), STATE_AT);
        assert_eq!(closed.kind(), ErrorKind::Unavailable);
    }

    /// Other implementations rely on the document.
    #[test]
    fn every_live_word_is_in_the_format_document() {
        let document = include_str!("../../../../docs/gpu-store-format.md");
        for at in [STATE_AT, IDENTITY_AT, DOORBELL_AT, RELEASES_AT, EXHAUSTED_AT, COMMITTED_AT, CHANGES_AT] {
            let row = format!("\n| {},{:03}–", at / 1000, at % 1000);
            assert!(document.contains(&row), "{row}");
        }
    }
}
