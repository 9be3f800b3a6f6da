//! Packs batches of samples for a reader, in parts of bounded size.

use relive_table::Sampled;
use relive_tensor::CodecSet;
use relive_wire::limits::SAMPLE_BATCH_BYTES;
use relive_wire::sample::{Packer, packed_bytes};
use tonic::Status;

use crate::services::status;

/// A batch of samples that is being packed.
///
/// Chunks that the reader can decode are shared with the table, so a batch of them is a single part. Other chunks are
/// decoded and encoded again, and may be much larger than they are in the table. A part therefore ends with the chunk
/// that fills it.
#[derive(Debug)]
pub(super) struct Packing {
    batch: Vec<Sampled>,
    /// The codecs that the reader supports.
    codecs: CodecSet,
    /// The beginning and the end of the next part.
    next: Place,
    end: Place,
    /// The size of the next part.
    bytes: u64,
}

/// A sample in the batch, and a chunk of it.
type Place = (usize, usize);

impl Packing {
    pub(super) fn new(batch: Vec<Sampled>, codecs: CodecSet) -> Self {
        let mut packing = Self { batch, codecs, next: (0, 0), end: (0, 0), bytes: 0 };
        packing.measure();
        packing
    }

    /// Returns the number of samples in the batch.
    pub(super) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns whether all samples have been packed.
    pub(super) fn is_over(&self) -> bool {
        self.next.0 >= self.batch.len()
    }

    /// Returns the memory that the next part takes: the bytes of shared chunks, and the decoded bytes of the others.
    pub(super) fn part_bytes(&self) -> u64 {
        self.bytes
    }

    /// Packs the next part. `table` is the table from which the samples were taken.
    pub(super) fn pack(&mut self, packer: &mut Packer, table: &str) -> Result<(), Status> {
        while self.next < self.end {
            let (number, first) = self.next;
            let Some(sampled) = self.batch.get(number) else { break };
            let chunks = sampled.item.trajectory.chunks().len();
            let last = if number == self.end.0 { self.end.1 } else { chunks };
            let packed = packer.push_chunks(table, sampled, first..last);
            packed.map_err(|error| status::of_unreadable(&error))?;
            self.next = following((number, last), chunks);
        }
        self.measure();
        Ok(())
    }

    /// Determines the end and the size of the next part.
    fn measure(&mut self) {
        (self.end, self.bytes) = ((self.batch.len(), 0), 0);
        let (number, mut first) = self.next;
        let mut recoded_bytes = 0;
        for (number, sampled) in self.batch.iter().enumerate().skip(number) {
            if self.codecs.includes(CodecSet::ALL) {
                self.bytes += sampled.item.trajectory.encoded_size_bytes();
                continue;
            }
            let chunks = sampled.item.trajectory.chunks();
            for (index, chunk) in chunks.iter().enumerate().skip(std::mem::take(&mut first)) {
                let bytes = packed_bytes(self.codecs, chunk);
                self.bytes += bytes;
                recoded_bytes += if bytes > chunk.size_bytes() { bytes } else { 0 };
                if recoded_bytes >= SAMPLE_BATCH_BYTES as u64 {
                    self.end = following((number, index + 1), chunks.len());
                    return;
                }
            }
        }
    }
}

/// Returns the place `(number, chunk)`, or the beginning of the next sample if this sample has only `chunk` chunks.
fn following((number, chunk): Place, chunks: usize) -> Place {
    if chunk < chunks { (number, chunk) } else { (number + 1, 0) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_table::{ItemData, Timestamp};
    use relive_tensor::{
        Chunk, Codec, ResidenceGuard, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk,
    };
    use relive_wire::Message;
    use relive_wire::reverb::SampleStreamResponse;

    use super::*;

    const CHUNK_BYTES: usize = SAMPLE_BATCH_BYTES;

    /// Returns a sample with a chunk of a few hundred bytes, which decodes to [`CHUNK_BYTES`], for each key.
    fn sampled(keys: &[u64]) -> Sampled {
        let mut builder = TrajectoryBuilder::new();
        for &key in keys {
            let column =
                Tensor::from_slice(&vec![0_u8; CHUNK_BYTES], [1, u32::try_from(CHUNK_BYTES).unwrap()])
                    .unwrap();
            let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
            let chunk = encode_chunk(key, range, &[column], false, Codec::Zstd).unwrap();
            let chunk = builder.chunk(Arc::new(Chunk::new(chunk).unwrap()));
            builder.begin_column(false);
            builder.slice(Slice { chunk, index: 0, offset: 0, length: 1 });
        }
        let (trajectory, inserted_at) = (builder.build().unwrap(), Timestamp::from_nanos(0));
        Sampled {
            item: Arc::new(ItemData { key: keys[0], sequence: 0, trajectory, inserted_at }),
            probability: 1.0,
            table_size: 1,
            priority: 1.0,
            times_sampled: 1,
            rate_limited: false,
            residence_guard: ResidenceGuard::default(),
        }
    }

    /// Packs samples. Returns the size of each part, and the entries that the reader receives: whether they begin a
    /// sample, their chunks, and whether they end it.
    fn packed(codecs: CodecSet) -> (Vec<u64>, Vec<(bool, usize, bool)>) {
        let mut packing = Packing::new(vec![sampled(&[1, 2, 3]), sampled(&[4])], codecs);
        let (mut sizes, mut entries) = (Vec::new(), Vec::new());
        while !packing.is_over() {
            sizes.push(packing.part_bytes());
            let mut packer = Packer::for_readers_of(codecs);
            packing.pack(&mut packer, "t").unwrap();
            for message in packer.finish() {
                let message: Vec<u8> = message.parts.iter().flat_map(|part| part.to_vec()).collect();
                let response = SampleStreamResponse::decode(&message[5..]).unwrap();
                let entry = response.entries.into_iter();
                entries.extend(
                    entry.map(|entry| (entry.info.is_some(), entry.data.len(), entry.end_of_sequence)),
                );
            }
        }
        (sizes, entries)
    }

    #[test]
    fn recoded_chunks_count_decoded_and_are_packed_one_by_one() {
        let (sizes, entries) = packed(CodecSet::REVERB);
        assert_eq!(sizes, [CHUNK_BYTES as u64; 4]);
        assert_eq!(
            entries,
            [(true, 1, false), (false, 1, false), (false, 1, true), (true, 1, true)],
            "a sample continues in later messages"
        );
    }

    #[test]
    fn shared_chunks_count_encoded_and_are_packed_together() {
        for codecs in [CodecSet::ALL, CodecSet::REVERB.with(Codec::Zstd)] {
            let (sizes, entries) = packed(codecs);
            assert!(sizes.len() == 1 && sizes[0] < 10_000, "{sizes:?}");
            assert_eq!(entries, [(true, 3, true), (true, 1, true)]);
        }
    }

    #[test]
    fn an_empty_batch_has_nothing_to_pack() {
        let packing = Packing::new(Vec::new(), CodecSet::REVERB);
        assert_eq!((packing.is_over(), packing.part_bytes(), packing.len()), (true, 0, 0));
    }
}
