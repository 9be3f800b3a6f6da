//! Tests chunks with codecs that dm-reverb does not support: the codecs are recorded on the wire, and the chunks are
//! recoded for readers that do not support the codecs.
#![expect(clippy::unwrap_used, reason = "data made here is valid")]

use std::sync::Arc;

use proptest::prelude::*;
use relive_table::{ItemData, Sampled, Timestamp};
use relive_tensor::{
    Chunk, ChunkLength, ChunkSink, Chunker, Codec, CodecSet, Cut, DType, Encoding, PlacedRows,
    ResidenceGuard, Rows, SequenceRange, Slice, Tensor, TrajectoryBuilder, encode_chunk,
};
use relive_wire::reverb::{ChunkData, SampleStreamResponse};
use relive_wire::sample::Packer;
use relive_wire::{Message, WireError, chunk, codec};

const RANGE: SequenceRange = SequenceRange { episode_id: 3, start: 0, end: 3, sparse: false };

fn columns() -> Vec<Tensor> {
    let numbers = Tensor::from_slice(&[5_i32; 400], [4, 100]).unwrap();
    let texts = Tensor::from_strings(["a", "bc", "", "def"], [4]).unwrap();
    vec![numbers, texts]
}

fn chunk_of(key: u64, codec: Codec) -> Chunk {
    Chunk::new(encode_chunk(key, RANGE, &columns(), true, codec).unwrap()).unwrap()
}

fn tensors(message: &[u8]) -> Vec<relive_wire::tensorflow::TensorProto> {
    ChunkData::decode(message).unwrap().data.unwrap().tensors
}

#[test]
fn a_chunk_message_carries_its_codec() {
    for codec in Codec::ALL {
        let message = chunk::encode(&chunk_of(7, codec));
        let numbers: Vec<i32> = tensors(&message).iter().map(|tensor| tensor.relive_codec).collect();
        assert_eq!(numbers, [codec::to_wire(codec), 0], "strings have none");
        let received = chunk::decode(&message).unwrap();
        assert!(received.is_verbatim(), "it goes on as the bytes that came in");
        assert_eq!(received.codecs(), CodecSet::NONE.with(codec));
        assert_eq!(chunk::key(&message).unwrap(), received.key());
        for (index, tensor) in columns().iter().enumerate() {
            assert_eq!(received.decode_column(index).unwrap(), *tensor);
        }
    }
    let plain = chunk::encode(&chunk_of(7, Codec::Snappy));
    let keys = |message: &[u8]| message.windows(2).filter(|bytes| *bytes == [0xc0, 0x3e]).count();
    assert_eq!(keys(&plain), 0, "dm-reverb's chunks have no field of ours");
    assert_eq!(keys(&chunk::encode(&chunk_of(7, Codec::Lz4))), 1);
}

#[test]
fn invalid_codecs_are_refused() {
    let mut message = ChunkData::decode(chunk::encode(&chunk_of(7, Codec::Zstd))).unwrap();
    let set = |message: &mut ChunkData, column: usize, number| {
        message.data.as_mut().unwrap().tensors[column].relive_codec = number;
    };
    let refusal = |message: &ChunkData| chunk::decode(&message.encode_to_vec()).unwrap_err();
    set(&mut message, 0, 9);
    let error = refusal(&message);
    assert!(matches!(error, WireError::UnknownCodec { key: 7, column: 0, number: 9 }), "{error}");
    set(&mut message, 0, -1);
    assert!(matches!(refusal(&message), WireError::UnknownCodec { number: u64::MAX, .. }));
    set(&mut message, 0, codec::to_wire(Codec::Lz4));
    assert!(refusal(&message).to_string().contains("lz4"), "{}", refusal(&message));
    set(&mut message, 0, codec::to_wire(Codec::Zstd));
    assert!(chunk::decode(&message.encode_to_vec()).is_ok());
    set(&mut message, 1, codec::to_wire(Codec::Zstd));
    assert!(refusal(&message).to_string().contains("strings are never compressed"), "{}", refusal(&message));
}

fn sampled(chunks: Vec<Arc<Chunk>>) -> Sampled {
    let mut builder = TrajectoryBuilder::new();
    for chunk in chunks {
        let chunk = builder.chunk(chunk);
        builder.slice(Slice { chunk, offset: 0, length: 4, index: 0 });
    }
    let trajectory = builder.build().unwrap();
    let inserted_at = Timestamp::from_nanos(0);
    Sampled {
        item: Arc::new(ItemData { key: 1, sequence: 0, trajectory, inserted_at }),
        probability: 1.0,
        table_size: 1,
        priority: 1.0,
        times_sampled: 1,
        rate_limited: false,
        residence_guard: ResidenceGuard::default(),
    }
}

fn sent_to(codecs: Option<CodecSet>, sampled: &Sampled) -> Vec<Vec<u8>> {
    let mut packer = codecs.map_or_else(Packer::default, Packer::for_readers_of);
    packer.push("t", sampled).unwrap();
    let parts = packer.finish().remove(0).unwrap().parts;
    let message: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
    let response = SampleStreamResponse::decode(&message[5..]).unwrap();
    response.entries.iter().flat_map(|entry| entry.data.iter().map(|chunk| chunk.to_vec())).collect()
}

#[test]
fn readers_get_supported_codecs_and_snappy_instead_of_others() {
    let received = |key, codec| Arc::new(chunk::decode(&chunk::encode(&chunk_of(key, codec))).unwrap());
    let chunks: Vec<_> = (1..).zip(Codec::ALL).map(|(key, codec)| received(key, codec)).collect();
    let item = sampled(chunks.clone());
    let as_stored: Vec<Vec<u8>> = chunks.iter().map(|chunk| chunk.frame().to_vec()).collect();
    assert_eq!(sent_to(Some(CodecSet::ALL), &item), as_stored);
    for codecs in
        [None, Some(CodecSet::NONE), Some(CodecSet::REVERB), Some(CodecSet::REVERB.with(Codec::Lz4))]
    {
        let known = codecs.unwrap_or_default().with(Codec::Snappy);
        let sent = sent_to(codecs, &item);
        for ((message, stored), chunk) in sent.iter().zip(&as_stored).zip(&chunks) {
            let read = chunk::decode(message).unwrap();
            assert_eq!(read.key(), chunk.key());
            assert_eq!(read.decode_column(0).unwrap(), columns()[0]);
            assert_eq!(read.decode_column(1).unwrap(), columns()[1]);
            if known.includes(chunk.codecs()) {
                assert_eq!(message, stored);
            } else {
                assert!(tensors(message).iter().all(|tensor| tensor.relive_codec == 0));
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_chunks_of_any_codec_are_refused_or_decode(
        codec in proptest::sample::select(Codec::ALL.to_vec()),
        delta: bool,
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let rows: Vec<u8> = (0..96_u8).map(|i| i / 7).collect();
        let tensor = Tensor::new(DType::UInt8, [4, 24], rows.into()).unwrap();
        let parts = encode_chunk(5, RANGE, &[tensor], delta, codec).unwrap();
        let mut bytes = chunk::encode(&Chunk::new(parts).unwrap()).to_vec();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(chunk) = chunk::decode(&bytes) {
            for index in 0..chunk.num_columns() {
                if let Ok(tensor) = chunk.decode_column(index) {
                    prop_assert_eq!(tensor.shape(), &chunk.column(index).unwrap().shape);
                }
            }
            let again = chunk::decode(&chunk::encode(&chunk.recoded(Codec::Snappy).unwrap())).unwrap();
            prop_assert_eq!(again.num_columns(), chunk.num_columns());
        }
    }
}

/// Writes the message of each cut chunk in two ways.
#[derive(Default)]
struct BothEncodings(Vec<[bytes::Bytes; 2]>);

impl ChunkSink for BothEncodings {
    fn new_key(&mut self) -> u64 {
        u64::MAX - 7
    }

    fn place(&mut self, _: PlacedRows) {}

    fn cut(&mut self, cut: &Cut<'_>) {
        for way in [Encoding::Stored, Encoding::Bare] {
            let plain = cut.plain(|_| Some(way)).unwrap().expect("all of it is stored as it is");
            let chunk = Chunk::new(cut.encode(|_| way).unwrap()).unwrap();
            assert!(chunk.is_plain());
            self.0.push([chunk::encode_plain(&plain), chunk::encode(&chunk)]);
        }
        assert!(cut.plain(|column| (column == 0).then_some(Encoding::Stored)).unwrap().is_none());
    }
}

#[test]
fn a_message_written_in_one_pass_is_identical() {
    let mut seen = BothEncodings::default();
    let mut chunker = Chunker::new(ChunkLength::constant(2, 2).unwrap(), false).unwrap();
    for _ in 0..2 {
        chunker.add_column();
    }
    let (small, large) = (Tensor::scalar(-3_i64), Tensor::from_slice(&[0.5_f32; 3_000], [30, 100]).unwrap());
    for step in 0..6 {
        chunker
            .append(1 << 60, step, &[(0, Rows::step(&small)), (1, Rows::step(&large))], &mut seen)
            .unwrap();
    }
    assert_eq!(seen.0.len(), 6);
    for [at_once, framed] in seen.0 {
        assert_eq!(at_once, framed);
        assert_eq!(chunk::encode(&chunk::decode(&at_once).unwrap()), at_once);
    }
}
