//! Reads records at the places that a checkpoint lists.

use std::io;

use super::{HEADER_BYTES, Place, SegmentId, check_header, record};
use crate::storage::Source;

/// The limit on the total size, in bytes, of adjacent records that are read together: large enough for a disk to be
/// efficient, and small enough that the records stay in the processor's cache until they are checked.
const READ_BYTES: u64 = 1 << 20;

/// Gaps of up to this many bytes between requested records are read rather than skipped.
const GAP_BYTES: u64 = 64 << 10;

/// The number of bytes that are prefetched beyond the bytes that are being checked. The disk then does not have to wait
/// for the processor, and a completed read is available before the reader needs it.
const AHEAD_BYTES: u64 = 16 << 20;

/// An open segment.
pub(crate) struct SegmentReader {
    source: Box<dyn Source>,
    buffer: Vec<u8>,
}

/// A requested record, with the caller's identifier.
pub(crate) type RecordRequest = (usize, Place);

impl SegmentReader {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// Checks that the file starts like the segment with the given id. If it does not, returns the reason.
    pub(crate) fn check_header(&self, id: SegmentId) -> io::Result<Result<(), String>> {
        let mut bytes = [0; HEADER_BYTES];
        self.source.read_exact_at(&mut bytes, 0)?;
        Ok(check_header(&bytes, id).map_err(|fault| fault.to_string()))
    }

    /// Reads records, which must be sorted by offset, and passes each to `take`.
    pub(crate) fn read(
        &mut self,
        wanted: &[RecordRequest],
        mut take: impl FnMut(RecordRequest, io::Result<&[u8]>),
    ) {
        let last = wanted.iter().map(|(_, place)| place.end()).max().unwrap_or_default();
        let mut ahead = 0_u64;
        let mut rest = wanted;
        while let Some((first, _)) = rest.split_first() {
            let (run, after) = rest.split_at(run_length(rest));
            rest = after;
            let start = u64::from(first.1.offset);
            let end = run.iter().map(|(_, place)| place.end()).max().unwrap_or(start);
            if end > ahead.saturating_sub(AHEAD_BYTES / 2) && ahead < last {
                let from = start.max(ahead);
                ahead = last.min(end + AHEAD_BYTES);
                self.source.read_ahead(from..ahead);
            }
            if self.fill(start, end).is_ok() {
                run.iter().for_each(|wanted| take(*wanted, Ok(part(&self.buffer, start, wanted.1))));
                continue;
            }
            // Reads the records one by one, to determine which of them cannot be read.
            for wanted in run {
                let start = u64::from(wanted.1.offset);
                let filled = self.fill(start, wanted.1.end());
                take(*wanted, filled.map(|()| part(&self.buffer, start, wanted.1)));
            }
        }
    }

    /// Checks the records from `start` to `end` without a checkpoint that describes them. Returns the first fault and
    /// its location.
    pub(crate) fn check_records(&mut self, start: u64, end: u64) -> Result<(), (u64, String)> {
        let mut at = start;
        while at < end {
            let loss_at = |reason: &dyn std::fmt::Display| (at, reason.to_string());
            let mut head = [0; record::HEAD_BYTES];
            self.source.read_exact_at(&mut head, at).map_err(|error| loss_at(&error))?;
            let head = record::Head::from_bytes(head);
            let next = at + record::HEAD_BYTES as u64 + u64::from(head.length);
            if next > end {
                return Err(loss_at(&"a record is longer than the rest of the file"));
            }
            self.fill(at, next).map_err(|error| loss_at(&error))?;
            let bytes = usize::try_from(next - at).ok().and_then(|length| self.buffer.get(..length));
            record::read(bytes.unwrap_or_default(), head).map_err(|fault| loss_at(&fault))?;
            at = next;
        }
        Ok(())
    }

    fn fill(&mut self, start: u64, end: u64) -> io::Result<()> {
        // This is checked before memory is allocated, in case the bytes do not exist.
        if end > self.source.size_bytes() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let length = usize::try_from(end - start).map_err(io::Error::other)?;
        if self.buffer.len() < length || self.buffer.len() as u64 > 2 * READ_BYTES.max(end - start) {
            self.buffer = vec![0; length];
        }
        self.source.read_exact_at(self.buffer.get_mut(..length).unwrap_or_default(), start)
    }
}

fn part(buffer: &[u8], start: u64, place: Place) -> &[u8] {
    let range = || {
        let begin = usize::try_from(u64::from(place.offset).checked_sub(start)?).ok()?;
        Some(begin..begin.checked_add(usize::try_from(place.record_bytes()).ok()?)?)
    };
    range().and_then(|range| buffer.get(range)).unwrap_or_default()
}

/// Returns how many records, at least one, are read together.
fn run_length(wanted: &[RecordRequest]) -> usize {
    let Some((_, first)) = wanted.first() else { return 0 };
    let (start, mut end) = (u64::from(first.offset), first.end());
    let belongs = |(_, place): &&RecordRequest| {
        let fits = u64::from(place.offset) <= end + GAP_BYTES && place.end().max(end) - start <= READ_BYTES;
        end = end.max(place.end());
        fits
    };
    1 + wanted.iter().skip(1).take_while(belongs).count()
}

/// Returns the head of a record, for its reader.
pub(crate) fn head_of(place: Place) -> record::Head {
    record::Head { length: place.length, crc: place.crc }
}
