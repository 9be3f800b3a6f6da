//! A file in a bucket.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{ObjectMeta, ObjectStoreExt};
use parking_lot::Mutex;

use super::driver::Pending;
use super::handle::Bucket;
use super::limits::{IN_FLIGHT, LEAST_READ_BYTES, RANGE_BYTES};
use crate::storage::Source;

/// Splits large reads into a few concurrent requests. Enlarges small reads, because most callers with small reads
/// continue with the next bytes.
pub(super) struct BucketSource {
    bucket: Arc<Bucket>,
    meta: ObjectMeta,
    ahead: Mutex<ReadAhead>,
}

/// The bytes of the file that are already in memory.
#[derive(Default)]
struct ReadAhead {
    offset: u64,
    bytes: Bytes,
}

impl ReadAhead {
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.offset)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..end)
    }

    /// Returns the range to request from the service for a read of `range`.
    fn next(&self, range: &Range<u64>, size_bytes: u64) -> Range<u64> {
        let end = self.offset + self.bytes.len() as u64;
        // There may be a small unwanted gap between the last read and this one.
        let is_contiguous = self.offset <= range.start && range.start <= end + LEAST_READ_BYTES;
        let before = if is_contiguous { self.bytes.len() as u64 } else { 0 };
        let length = (before * 2).clamp(LEAST_READ_BYTES, RANGE_BYTES).max(range.end - range.start);
        range.start..size_bytes.min(range.start.saturating_add(length))
    }
}

impl BucketSource {
    pub(super) fn new(bucket: Arc<Bucket>, meta: ObjectMeta) -> Self {
        Self { bucket, meta, ahead: Mutex::default() }
    }

    fn begin(&self, range: Range<u64>) -> Pending<object_store::Result<Bytes>> {
        let (store, path) = (Arc::clone(&self.bucket.store), self.meta.location.clone());
        self.bucket.driver.begin(async move { store.get_range(&path, range).await })
    }

    fn wait(&self, request: Pending<object_store::Result<Bytes>>) -> io::Result<Bytes> {
        request.wait()?.map_err(|error| self.bucket.explain(error))
    }

    fn read_small(&self, into: &mut [u8], range: &Range<u64>) -> io::Result<()> {
        let mut ahead = self.ahead.lock();
        if ahead.get(range).is_none() {
            let next = ahead.next(range, self.meta.size);
            let offset = next.start;
            let bytes = self.wait(self.begin(next))?;
            *ahead = ReadAhead { offset, bytes };
        }
        into.copy_from_slice(ahead.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn read_large(&self, into: &mut [u8], range: &Range<u64>) -> io::Result<()> {
        let mut ranges = (range.start..range.end)
            .step_by(usize::try_from(RANGE_BYTES).unwrap_or(usize::MAX))
            .map(|start| start..range.end.min(start + RANGE_BYTES));
        let mut under_way: VecDeque<_> =
            ranges.by_ref().take(IN_FLIGHT).map(|range| self.begin(range)).collect();
        let mut rest = into;
        while let Some(request) = under_way.pop_front() {
            let bytes = self.wait(request)?;
            under_way.extend(ranges.next().map(|range| self.begin(range)));
            let (now, later) = rest.split_at_mut_checked(bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
            now.copy_from_slice(&bytes);
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Source for BucketSource {
    fn size_bytes(&self) -> u64 {
        self.meta.size
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let length = into.len() as u64;
        let end = offset.checked_add(length).filter(|end| *end <= self.meta.size);
        let range = offset..end.ok_or(io::ErrorKind::UnexpectedEof)?;
        match length {
            0 => Ok(()),
            1..RANGE_BYTES => self.read_small(into, &range),
            _ => self.read_large(into, &range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_increase_the_read_ahead() {
        const MIB: u64 = 1 << 20;
        let mut ahead = ReadAhead::default();
        let mut lengths = Vec::new();
        let mut place = 0;
        while place < 64 * MIB {
            let range = place..(place + 40_000).min(64 * MIB);
            if ahead.get(&range).is_none() {
                let next = ahead.next(&range, 64 * MIB);
                lengths.push((next.end - next.start) / LEAST_READ_BYTES);
                ahead = ReadAhead {
                    offset: next.start,
                    bytes: vec![0; usize::try_from(next.end - next.start).unwrap()].into(),
                };
            }
            place = range.end;
        }
        assert_eq!(lengths[..7], [1, 2, 4, 8, 16, 32, 64]);
        assert!(lengths.len() <= 16, "{lengths:?}");
        let far = 5 * MIB..5 * MIB + 10;
        assert_eq!(
            ahead.next(&far, 64 * MIB),
            5 * MIB..5 * MIB + LEAST_READ_BYTES,
            "after a jump, reading ahead starts over"
        );
    }
}
