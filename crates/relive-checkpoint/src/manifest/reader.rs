//! Reads a checkpoint file, block by block.

use std::io;

use super::block::{BlockFault, BlockHead, HEAD_BYTES, Kind, MAX_BLOCK_ENTRIES};
use super::walk::{self, END_BYTES, End, HEADER_BYTES};
use super::{Description, ItemColumns, KnownChunks, Totals, decode_chunks};
use crate::Loss;
use crate::layout::Malformed;
use crate::losses::Losses;
use crate::segment::Place;
use crate::storage::{Source, Storage};
use crate::{Error, ErrorKind, names};

/// The contents of a checkpoint file.
pub(crate) struct Manifest {
    /// The name of the file in messages.
    pub(crate) file: String,
    pub(crate) size_bytes: u64,
    pub(crate) description: Description,
    pub(crate) chunks: KnownChunks,
    /// In file order.
    pub(crate) items: Vec<ItemBlock>,
}

/// A block of items, still encoded.
pub(crate) struct ItemBlock {
    pub(crate) head: BlockHead,
    /// The offset of the block.
    pub(crate) offset: u64,
    pub(crate) stored: Vec<u8>,
}

impl ItemBlock {
    /// Returns the position of the table.
    pub(crate) fn table(&self) -> usize {
        usize::try_from(self.head.subject).unwrap_or(usize::MAX)
    }

    pub(crate) fn decode(self) -> Result<ItemColumns, BlockFault> {
        Ok(ItemColumns::decode(&self.head.decode(self.stored)?, self.head.count)?)
    }

    /// Like [`decode`](Self::decode), but for callers that will need the block again.
    pub(crate) fn decoded(&self) -> Result<ItemColumns, BlockFault> {
        Ok(ItemColumns::decode(&self.head.decode(self.stored.clone())?, self.head.count)?)
    }
}

/// Reads the named file. Reports damage to `losses`, which may return it as an error.
pub(crate) fn read_manifest(
    storage: &dyn Storage,
    name: &str,
    losses: &mut Losses,
) -> Result<Manifest, Error> {
    let file = storage.describe(name);
    let source = open(storage, name)?;
    let until = source.size_bytes() - END_BYTES as u64;
    check_header(source.as_ref(), &file, losses)?;
    let end = match read_end(source.as_ref(), until)? {
        Ok(end) => Some(end),
        Err(fault) => losses.damage(&file, until, fault).map(|_| None)?,
    };
    let mut reading = Reading::new(source.as_ref(), &file, losses, until);
    reading.walk()?;
    reading.check_end(end)?;
    let Parts { first, last, chunks, items } = reading.parts;
    let Some(description) = last.or(first) else {
        return Err(Error::lost(&Loss::of(&file, 0, "the list of tables is missing")));
    };
    if let Some(totals) = description.totals {
        check_totals(totals, &description, &chunks, &file, losses)?;
    }
    Ok(Manifest { size_bytes: source.size_bytes(), file, description, chunks, items })
}

/// Reads only the description at the end of the named file.
pub(crate) fn read_description(storage: &dyn Storage, name: &str) -> Result<(Description, u64), Error> {
    let file = storage.describe(name);
    let source = open(storage, name)?;
    let losses = &mut Losses::new(false);
    check_header(source.as_ref(), &file, losses)?;
    let until = source.size_bytes() - END_BYTES as u64;
    let end =
        read_end(source.as_ref(), until)?.map_err(|fault| Error::lost(&Loss::of(&file, until, fault)))?;
    let mut reading = Reading::new(source.as_ref(), &file, losses, until);
    reading.blocks = end.blocks.saturating_sub(1);
    reading.block(end.last)?;
    let missing = || Error::lost(&Loss::of(&file, end.last, "the last block is not a description"));
    Ok((reading.parts.last.ok_or_else(missing)?, source.size_bytes()))
}

fn open(storage: &dyn Storage, name: &str) -> Result<Box<dyn Source>, Error> {
    let file = storage.describe(name);
    let source = storage.open(name).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::lost(&Loss::of(&file, 0, "the file is missing")),
        _ => Error::storage("read", &file, source),
    })?;
    if names::checkpoint_number(name).is_none() {
        let reason = "this is not the name of a checkpoint";
        return Err(Error::lost(&Loss::of(&file, 0, reason)));
    }
    let size = source.size_bytes();
    if size < (HEADER_BYTES + END_BYTES) as u64 {
        return Err(Error::lost(&Loss::of(&file, 0, format!("it is truncated: it has {size} bytes"))));
    }
    Ok(source)
}

fn check_header(source: &dyn Source, file: &str, losses: &mut Losses) -> Result<(), Error> {
    let mut bytes = [0; HEADER_BYTES];
    if let Err(error) = source.read_exact_at(&mut bytes, 0) {
        return losses.unreadable(file, 0, error).map(drop);
    }
    match walk::check_header(&bytes) {
        Err(fault @ walk::FrameFault::Version(_)) => {
            Err(Error::plain(ErrorKind::Newer, format!("{file}: {fault}")))
        }
        Err(fault) => losses.damage(file, 0, fault).map(drop),
        Ok(()) => Ok(()),
    }
}

fn read_end(source: &dyn Source, at: u64) -> Result<Result<End, walk::FrameFault>, Error> {
    let mut bytes = [0; END_BYTES];
    // Reading continues after an unreadable block.
    let read = source.read_exact_at(&mut bytes, at);
    Ok(read.map_err(|_| walk::FrameFault::End).and_then(|()| walk::read_end(&bytes)))
}

/// Checks the totals. Bytes cannot be compared after a loss, which may have taken descriptions of chunks.
fn check_totals(
    totals: Totals,
    description: &Description,
    chunks: &KnownChunks,
    file: &str,
    losses: &mut Losses,
) -> Result<(), Error> {
    let offset = losses.first_offset();
    let items = description.tables.iter().fold(0_u64, |sum, table| sum.saturating_add(table.items));
    let bytes = chunks.places().iter().map(Place::record_bytes).sum::<u64>();
    let bytes = if offset.is_some() { totals.chunk_bytes } else { bytes };
    for (what, total, found) in [
        ("chunks", totals.chunks, chunks.end()),
        ("items", totals.items, items),
        ("bytes of chunks", totals.chunk_bytes, bytes),
    ] {
        if found != total {
            let reason = format!("the checkpoint has {total} {what}, but describes {found}");
            losses.damage(file, offset.unwrap_or(0), reason)?;
        }
    }
    Ok(())
}

/// The state of a pass over a file.
struct Reading<'a> {
    source: &'a dyn Source,
    file: &'a str,
    losses: &'a mut Losses,
    /// The end of the blocks.
    until: u64,
    /// The number of the next block.
    blocks: u32,
    /// The offset of the last block.
    last: u64,
    parts: Parts,
}

#[derive(Default)]
struct Parts {
    /// The description at the start.
    first: Option<Description>,
    /// The description at the end.
    last: Option<Description>,
    chunks: KnownChunks,
    items: Vec<ItemBlock>,
}

impl<'a> Reading<'a> {
    fn new(source: &'a dyn Source, file: &'a str, losses: &'a mut Losses, until: u64) -> Self {
        Self { source, file, losses, until, blocks: 0, last: 0, parts: Parts::default() }
    }

    fn walk(&mut self) -> Result<(), Error> {
        let mut at = HEADER_BYTES as u64;
        while at < self.until {
            at = self.block(at)?;
        }
        Ok(())
    }

    /// Reads the block at this offset. Returns the offset of the next one.
    fn block(&mut self, at: u64) -> Result<u64, Error> {
        let room = self.until.saturating_sub(at);
        if room < HEAD_BYTES as u64 {
            return self.skip(at, format!("{room} bytes are too few for a block"));
        }
        let head = match walk::read_head(self.source, at) {
            Ok(Ok(head)) => head,
            Ok(Err(fault)) => return self.skip(at, fault.to_string()),
            Err(error) => {
                self.losses.unreadable(self.file, at, error)?;
                return self.next_whole(at);
            }
        };
        let next = at + HEAD_BYTES as u64 + u64::from(head.stored_bytes);
        if next > self.until {
            return self
                .skip(at, format!("the block has {} bytes, more than the file has left", head.stored_bytes));
        }
        if head.number != self.blocks {
            let reason = format!("found block {}, but expected block {}", head.number, self.blocks);
            self.losses.damage(self.file, at, reason)?;
        }
        self.blocks = head.number.saturating_add(1);
        self.last = at;
        self.content(head, at)?;
        Ok(next)
    }

    /// Handles a damaged head at this offset.
    fn skip(&mut self, at: u64, reason: String) -> Result<u64, Error> {
        self.losses.damage(self.file, at, reason)?;
        self.next_whole(at)
    }

    fn next_whole(&mut self, at: u64) -> Result<u64, Error> {
        let found = walk::next_head(self.source, at + 1, self.until);
        Ok(found.map_err(|source| Error::storage("read", self.file, source))?.unwrap_or(self.until))
    }

    fn content(&mut self, head: BlockHead, at: u64) -> Result<(), Error> {
        let size = usize::try_from(head.stored_bytes).expect("32 bits fit");
        let mut stored = vec![0; size];
        let read = self.source.read_exact_at(&mut stored, at + HEAD_BYTES as u64);
        let checked = match read {
            Ok(()) => head.check(&stored),
            Err(error) => {
                return self
                    .losses
                    .unreadable(self.file, at, error)
                    .map(|number| self.record_loss(head, number));
            }
        };
        let taken = checked.and_then(|()| self.take(head, at, stored));
        match taken {
            Ok(()) => Ok(()),
            Err(fault) => {
                let table = self.table_of(head);
                let number = self.losses.note(Loss { table, ..Loss::of(self.file, at, fault) })?;
                self.record_loss(head, number);
                Ok(())
            }
        }
    }

    fn take(&mut self, head: BlockHead, offset: u64, stored: Vec<u8>) -> Result<(), BlockFault> {
        if matches!(head.kind, Kind::Chunks | Kind::Items) && head.count > MAX_BLOCK_ENTRIES {
            return Err(BlockFault::Entries(head.count));
        }
        match head.kind {
            Kind::Description => {
                let description = Description::decode(&head.decode(stored)?)?;
                let is_last = description.totals.is_some();
                *if is_last { &mut self.parts.last } else { &mut self.parts.first } = Some(description);
            }
            Kind::Chunks => {
                let places = decode_chunks(&head.decode(stored)?, head.count)?;
                self.check_position(head)?;
                self.parts.chunks.add(head.subject.into(), places);
            }
            Kind::Items => self.parts.items.push(ItemBlock { head, offset, stored }),
            Kind::Other(_) => {}
        }
        Ok(())
    }

    /// Checks that chunks may start at the position in a block's head: at the next position, or at a later one after a
    /// loss.
    fn check_position(&self, head: BlockHead) -> Result<(), BlockFault> {
        let (first, known) = (u64::from(head.subject), self.parts.chunks.end());
        if first == known || (first > known && self.losses.first_offset().is_some()) {
            return Ok(());
        }
        let what = "the position of the first chunk of a block";
        Err(Malformed::Count { what, counted: first, found: known }.into())
    }

    /// Records that the content of this block is lost.
    fn record_loss(&mut self, head: BlockHead, number: usize) {
        if head.kind == Kind::Chunks && self.check_position(head).is_ok() {
            self.parts.chunks.record_loss(head.subject.into(), head.count.into(), number);
        }
        if let (Kind::Items, Some(table)) = (head.kind, self.table_of(head)) {
            self.losses.attribute(number, &table, head.count.into());
        }
    }

    /// Returns the table to which a block belongs.
    fn table_of(&self, head: BlockHead) -> Option<String> {
        let description = self.parts.first.as_ref().filter(|_| head.kind == Kind::Items)?;
        let table = description.tables.get(usize::try_from(head.subject).ok()?)?;
        Some(table.config.name.clone())
    }

    fn check_end(&mut self, end: Option<End>) -> Result<(), Error> {
        let Some(end) = end else { return Ok(()) };
        let found = End { last: self.last, blocks: self.blocks };
        let is_whole = self.parts.first.is_some() && self.parts.last.is_some();
        if found != end || !is_whole {
            let End { last, blocks } = end;
            let reason =
                format!("expected {blocks} blocks here, the last one, a description, at byte {last}");
            self.losses.damage(self.file, self.until, reason)?;
        }
        Ok(())
    }
}
