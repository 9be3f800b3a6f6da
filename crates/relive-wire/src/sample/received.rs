//! A received sample: its numbers are parsed; everything else stays encoded in its messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use relive_table::ItemStructure;
use relive_tensor::{Chunk, Slice, Trajectory, TrajectoryBuilder};

use super::layout::{ReceivedSlice, TrajectoryLayout};
use crate::reader::{Field, Fields, MalformedMessage, int32, int64};
use crate::{WireError, chunk};

/// Field numbers of a sample entry.
pub(super) mod part {
    pub(in crate::sample) const INFO: u64 = 1;
    pub(in crate::sample) const CHUNK: u64 = 2;
    pub(in crate::sample) const END: u64 = 3;
}

/// Information about an item in a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceivedInfo {
    /// The item's key.
    pub key: u64,
    /// Its priority.
    pub priority: f64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
    /// The probability with which the item was sampled.
    pub probability: f64,
    /// The number of items in the table.
    pub table_size: i64,
    /// Whether the rate limiter held the sample back.
    pub rate_limited: bool,
    /// When the item was inserted, as seconds since 1970 and nanoseconds, or `None` if the server does not report it.
    pub inserted_at: Option<(i64, i32)>,
}

/// A sample with its encoded chunks. It keeps its messages alive.
#[derive(Debug, Clone, Default)]
pub struct ReceivedSample {
    info: ReceivedInfo,
    /// The first entry of the sample.
    first: Bytes,
    /// Further entries, if the sample was split.
    rest: Vec<Bytes>,
    structure: Option<Arc<ItemStructure>>,
    table: Range<usize>,
    trajectory: Range<usize>,
}

impl ReceivedSample {
    pub(super) fn begin(
        first: Bytes,
        structure: Option<Arc<ItemStructure>>,
    ) -> Result<ReceivedSample, WireError> {
        let mut sample = ReceivedSample { first, structure, ..ReceivedSample::default() };
        // This is cheap: the bytes are reference-counted, not copied.
        let entry = sample.first.clone();
        sample.read(&entry).map_err(|error| WireError::malformed_sample(sample.info.key, error))?;
        match std::str::from_utf8(entry.get(sample.table.clone()).unwrap_or_default()) {
            Ok(_) => Ok(sample),
            Err(error) => {
                let reason = format!("the table's name is not UTF-8 text: {error}");
                Err(WireError::MalformedSample { item: sample.info.key, reason })
            }
        }
    }

    pub(super) fn extend(&mut self, entry: Bytes) {
        self.rest.push(entry);
    }

    /// Returns the sampling information: key, priority and further details.
    #[must_use]
    pub fn info(&self) -> &ReceivedInfo {
        &self.info
    }

    /// Returns the structure of the table's items that the server sent.
    #[must_use]
    pub fn structure(&self) -> Option<&Arc<ItemStructure>> {
        self.structure.as_ref()
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        let bytes = self.first.get(self.table.clone()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the number of columns, or 0 if they cannot be parsed.
    #[must_use]
    pub fn num_columns(&self) -> usize {
        let mut layout = TrajectoryLayout::default();
        self.read_layout(&mut layout).map_or(0, |()| layout.columns().len())
    }

    /// Iterates over the encoded `ChunkData` messages, in the order of their arrival.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.first).chain(&self.rest).flat_map(|entry| {
            let mut fields = Fields::new(entry, 0..entry.len());
            std::iter::from_fn(move || {
                // The entry was validated when it arrived.
                while let Ok(Some(field)) = fields.next() {
                    if field.number == part::CHUNK {
                        return Some(entry.get(field.bytes().unwrap_or_default()).unwrap_or_default());
                    }
                }
                None
            })
        })
    }

    /// Returns the number of bytes in the chunks as received.
    #[must_use]
    pub fn encoded_size_bytes(&self) -> usize {
        self.chunks().map(<[u8]>::len).sum()
    }

    /// Parses the slices of chunks that form the columns.
    ///
    /// # Errors
    /// The description cannot be parsed, has no slices, or exceeds the [`limits`](crate::limits). Whether it matches
    /// the chunks is not checked.
    pub fn read_layout(&self, into: &mut TrajectoryLayout) -> Result<(), WireError> {
        into.read(self.info.key, &self.first, self.trajectory.clone())
    }

    /// Returns the sample's trajectory, validated and ready to be decoded.
    ///
    /// # Errors
    /// If a chunk is invalid, or the trajectory does not match the chunks.
    pub fn trajectory(&self) -> Result<Trajectory, WireError> {
        self.trajectory_beside(&mut HashMap::new())
    }

    /// Like [`trajectory`](Self::trajectory), but for one of several samples. `known` holds their chunks by key, so
    /// that shared chunks are parsed once; this sample's chunks are added to it.
    ///
    /// # Errors
    /// The errors of [`trajectory`](Self::trajectory).
    pub fn trajectory_beside(&self, known: &mut HashMap<u64, Arc<Chunk>>) -> Result<Trajectory, WireError> {
        let mut layout = TrajectoryLayout::default();
        self.read_layout(&mut layout)?;
        let mut chunks = Vec::new();
        for message in self.chunks() {
            let key = chunk::key(message)?;
            let chunk = match known.entry(key) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(vacant) => Arc::clone(vacant.insert(Arc::new(chunk::decode(message)?))),
            };
            chunks.push(chunk);
        }
        let item = self.info.key;
        let mut builder = TrajectoryBuilder::new();
        for (position, column) in layout.columns().enumerate() {
            builder.begin_column(column.squeeze);
            for slice in column.slices {
                let unknown = WireError::UnknownChunk { item, chunk: slice.chunk_key };
                let chunk = builder.chunk(find(&chunks, slice.chunk_key).ok_or(unknown)?);
                let ReceivedSlice { offset, length, index, .. } = slice.checked(item, position)?;
                builder.slice(Slice { chunk, offset, length, index });
            }
        }
        builder.build().map_err(|source| WireError::Trajectory { item, source })
    }

    fn read(&mut self, entry: &[u8]) -> Result<(), MalformedMessage> {
        let mut fields = Fields::new(entry, 0..entry.len());
        while let Some(field) = fields.next()? {
            if field.number == part::INFO {
                self.read_info(entry, field.bytes()?)?;
            }
        }
        Ok(())
    }

    fn read_info(&mut self, entry: &[u8], range: Range<usize>) -> Result<(), MalformedMessage> {
        let mut fields = Fields::new(entry, range);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => self.read_item(entry, field.bytes()?)?,
                2 => self.info.probability = field.double()?,
                3 => self.info.table_size = int64(field.varint()?),
                4 => self.info.rate_limited = field.varint()? != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_item(&mut self, entry: &[u8], range: Range<usize>) -> Result<(), MalformedMessage> {
        let mut fields = Fields::new(entry, range);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => self.info.key = field.varint()?,
                2 => self.table = field.bytes()?,
                5 => self.info.priority = field.double()?,
                6 => self.info.times_sampled = int32(field.varint()?),
                7 => self.read_time(entry, &field)?,
                8 if self.trajectory.end != 0 => return Err(MalformedMessage::Repeated(8)),
                8 => self.trajectory = field.bytes()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_time(&mut self, entry: &[u8], field: &Field) -> Result<(), MalformedMessage> {
        let (mut seconds, mut nanos) = self.info.inserted_at.unwrap_or_default();
        let mut fields = Fields::new(entry, field.bytes()?);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => seconds = int64(field.varint()?),
                2 => nanos = int32(field.varint()?),
                _ => {}
            }
        }
        self.info.inserted_at = Some((seconds, nanos));
        Ok(())
    }
}

/// Samples have few chunks, so a linear search is cheaper than a map.
fn find(chunks: &[Arc<Chunk>], key: u64) -> Option<Arc<Chunk>> {
    chunks.iter().find(|chunk| chunk.key() == key).map(Arc::clone)
}
