//! Packs samples into `SampleStreamResponse` messages, which are divided in the same way as by dm-reverb's server.
//!
//! Small parts are copied into one buffer; large chunks are shared, not copied.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost::encoding::encoded_len_varint;
use relive_table::{ItemStructure, Sampled};
use relive_tensor::{Chunk, Codec, CodecSet, Trajectory};

use super::writer::Writer;
use crate::WireError;
use crate::chunk;
use crate::limits::{FREE_INFO_BYTES, GRPC_HEADER_BYTES, SAMPLE_RESPONSE_BYTES};
use crate::structure;

/// Chunks of at least this size are separate parts. Smaller chunks are cheaper to copy than to write separately.
const SHARED_PART_BYTES: usize = 4 << 10;

/// The field of a response that contains the items' structure.
pub(super) const STRUCTURE_FIELD: u32 = 1000;

/// One gRPC message, including its header, as consecutive buffers.
#[derive(Debug, Default)]
pub struct EncodedMessage {
    /// The buffers, in order; none is empty.
    pub parts: VecDeque<Bytes>,
}

/// Collects samples into messages.
///
/// A message is closed once its chunks exceed [`SAMPLE_RESPONSE_BYTES`]; a sample may begin in one message and end in
/// the next. The first entry of a sample contains its information; the last one is marked as the end.
#[derive(Debug)]
pub struct Packer {
    finished: VecDeque<EncodedMessage>,
    open: Open,
    /// The codecs that the reader supports.
    codecs: CodecSet,
}

impl Default for Packer {
    /// Creates a packer for readers that support only the codecs of dm-reverb.
    fn default() -> Self {
        Self::for_readers_of(CodecSet::REVERB)
    }
}

/// Returns the memory that packing a chunk for readers of `codecs` takes: the chunk is shared if they can read it;
/// otherwise, it is decoded and then encoded in a codec that they support.
#[must_use]
pub fn packed_bytes(codecs: CodecSet, chunk: &Chunk) -> u64 {
    match is_readable(codecs.with(Codec::Snappy), chunk) {
        true => chunk.size_bytes(),
        false => chunk.size_bytes().max(chunk.uncompressed_size_bytes()),
    }
}

fn is_readable(codecs: CodecSet, chunk: &Chunk) -> bool {
    codecs.includes(chunk.codecs())
}

/// The message under construction: complete parts, then the buffer of small fields.
#[derive(Debug)]
struct Open {
    parts: VecDeque<Part>,
    tail: Writer,
    entries: usize,
    /// The number of bytes in chunks and in unusually large descriptions.
    counted_bytes: usize,
}

impl Packer {
    /// Creates a packer for readers that support `codecs`, which must include [`Codec::Snappy`]. Chunks with other
    /// codecs are recoded.
    #[must_use]
    pub fn for_readers_of(codecs: CodecSet) -> Self {
        Self { finished: VecDeque::new(), open: Open::default(), codecs: codecs.with(Codec::Snappy) }
    }

    /// Sets the structure of the items, if it is known. Call it before the first sample.
    pub fn put_structure(&mut self, structure: Option<&ItemStructure>) {
        let message = structure::of_items(structure).encode_to_vec();
        self.open.tail.key(STRUCTURE_FIELD, 2);
        self.open.tail.varint(message.len() as u64);
        self.open.tail.out.extend_from_slice(&message);
    }

    /// Adds one sample taken from `table`.
    ///
    /// # Errors
    /// A chunk is too large when it is encoded in a codec that the reader supports.
    pub fn push(&mut self, table: &str, sampled: &Sampled) -> Result<(), WireError> {
        self.push_chunks(table, sampled, 0..sampled.item.trajectory.chunks().len())
    }

    /// Adds some chunks of one sample taken from `table`. The chunks of a sample are added in order. Other samples may
    /// follow only after its last chunk.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn push_chunks(
        &mut self,
        table: &str,
        sampled: &Sampled,
        range: Range<usize>,
    ) -> Result<(), WireError> {
        let all = sampled.item.trajectory.chunks();
        let (is_first, is_last) = (range.start == 0, range.end >= all.len());
        let chunks = all.get(range).unwrap_or_default();
        let mut info = Writer::default();
        if is_first {
            info.message(1, |w| put_info(w, table, sampled));
        }
        if chunks.iter().all(|chunk| is_readable(self.codecs, chunk)) {
            self.put(info, chunks, is_last);
            return Ok(());
        }
        let readable = |chunk: &Arc<Chunk>| match is_readable(self.codecs, chunk) {
            true => Ok(Arc::clone(chunk)),
            false => chunk.recoded(Codec::Snappy).map(Arc::new),
        };
        let chunks = chunks.iter().map(readable).collect::<Result<Vec<_>, _>>()?;
        self.put(info, &chunks, is_last);
        Ok(())
    }

    fn put(&mut self, mut info: Writer, mut rest: &[Arc<Chunk>], is_last: bool) {
        loop {
            let (now, later) = rest.split_at(self.open.chunks_that_fit(rest));
            self.open.entry(&info.out, now, later.is_empty() && is_last);
            if self.open.counted_bytes > SAMPLE_RESPONSE_BYTES {
                self.close_message();
            }
            if later.is_empty() {
                return;
            }
            info.out.clear();
            rest = later;
        }
    }

    /// Closes the message under construction and returns all packed messages.
    pub fn finish(&mut self) -> VecDeque<EncodedMessage> {
        if self.open.entries > 0 {
            self.close_message();
        }
        std::mem::take(&mut self.finished)
    }

    fn close_message(&mut self) {
        self.finished.push_back(std::mem::take(&mut self.open).into_message());
    }
}

impl Default for Open {
    fn default() -> Self {
        let tail = Writer { out: vec![0; GRPC_HEADER_BYTES] };
        Self { parts: VecDeque::new(), tail, entries: 0, counted_bytes: 0 }
    }
}

impl Open {
    /// Returns how many of `chunks` are added to this message: one more than fit, because the limit is checked after
    /// each chunk.
    fn chunks_that_fit(&self, chunks: &[Arc<Chunk>]) -> usize {
        let mut bytes = self.counted_bytes;
        let fits = |chunk: &&Arc<Chunk>| {
            bytes += chunk::encoded_len(chunk);
            bytes <= SAMPLE_RESPONSE_BYTES
        };
        (chunks.iter().take_while(fits).count() + 1).min(chunks.len())
    }

    /// Appends one entry: the encoded information (empty for a continuation), chunks, and the end mark.
    fn entry(&mut self, info: &[u8], chunks: &[Arc<Chunk>], is_end: bool) {
        let (mut encoded, mut chunk_bytes) = (info.len() + END_MARK_BYTES * usize::from(is_end), 0);
        for chunk in chunks {
            let length = chunk::encoded_len(chunk);
            encoded += 1 + encoded_len_varint(length as u64) + length;
            chunk_bytes += length;
        }
        self.tail.key(1, 2);
        self.tail.varint(encoded as u64);
        self.tail.out.extend_from_slice(info);
        for chunk in chunks {
            self.chunk(chunk);
        }
        self.tail.bool(3, is_end);
        self.counted_bytes += chunk_bytes + info.len().saturating_sub(FREE_INFO_BYTES);
        self.entries += 1;
    }

    fn chunk(&mut self, chunk: &Arc<Chunk>) {
        let length = chunk::encoded_len(chunk);
        self.tail.key(2, 2);
        self.tail.varint(length as u64);
        if length >= SHARED_PART_BYTES && chunk.is_verbatim() {
            self.parts.push_back(Part::Small(std::mem::take(&mut self.tail.out)));
            self.parts.push_back(Part::Shared(Chunk::shared_frame(chunk)));
        } else {
            chunk::put(chunk, &mut self.tail.out);
        }
    }

    /// Fills in the header at the beginning of the first part.
    fn into_message(mut self) -> EncodedMessage {
        self.parts.push_back(Part::Small(self.tail.out));
        let total: usize = self.parts.iter().map(Part::len).sum();
        let length = u32::try_from(total - GRPC_HEADER_BYTES)
            .expect("a chunk has at most 2 GiB, and the rest a few MiB");
        if let Some(Part::Small(first)) = self.parts.front_mut() {
            first.splice(1..GRPC_HEADER_BYTES, length.to_be_bytes());
        }
        let parts = self.parts.into_iter().filter(|part| part.len() > 0).map(Part::into_bytes);
        EncodedMessage { parts: parts.collect() }
    }
}

/// A buffer of the message.
#[derive(Debug)]
enum Part {
    Small(Vec<u8>),
    Shared(Bytes),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Small(bytes) => bytes.len(),
            Self::Shared(frame) => frame.len(),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Small(bytes) => bytes.into(),
            Self::Shared(frame) => frame,
        }
    }
}

fn put_info(out: &mut Writer, table: &str, sampled: &Sampled) {
    out.message(1, |w| put_item(w, table, sampled));
    out.double(2, sampled.probability);
    out.uint(3, sampled.table_size);
    out.bool(4, sampled.rate_limited);
}

fn put_item(out: &mut Writer, table: &str, sampled: &Sampled) {
    let nanos = sampled.item.inserted_at.as_nanos();
    out.uint(1, sampled.item.key);
    out.string(2, table);
    out.double(5, sampled.priority);
    out.int(6, i64::from(sampled.times_sampled));
    out.message(7, |w| {
        w.int(1, nanos.div_euclid(NANOS_PER_SECOND));
        w.int(2, nanos.rem_euclid(NANOS_PER_SECOND));
    });
    out.message(8, |w| put_trajectory(w, &sampled.item.trajectory));
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The end mark: a key and the byte 1.
const END_MARK_BYTES: usize = 2;

fn put_trajectory(out: &mut Writer, trajectory: &Trajectory) {
    let chunks = trajectory.chunks();
    for column in trajectory.columns() {
        out.message(1, |w| {
            for slice in column.slices() {
                let key = chunks.get(slice.chunk as usize).map_or(0, |chunk| chunk.key());
                w.message(1, |w| {
                    w.uint(1, key);
                    w.uint(2, u64::from(slice.offset));
                    w.uint(3, u64::from(slice.length));
                    w.uint(4, u64::from(slice.index));
                });
            }
            w.bool(2, column.squeeze());
        });
    }
}
