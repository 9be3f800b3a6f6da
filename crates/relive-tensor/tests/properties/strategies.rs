//! Strategies that the property tests share.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_tensor::{Chunk, Codec, DType, SequenceRange, Shape, Tensor, encode_chunk};

/// Any element type.
pub(crate) fn dtypes() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// Any codec.
pub(crate) fn codecs() -> impl Strategy<Value = Codec> {
    proptest::sample::select(Codec::ALL.to_vec())
}

/// Returns bytes with and without repetitions, so that literals and copies both occur.
pub(crate) fn data() -> impl Strategy<Value = Vec<u8>> {
    let runs = vec((any::<u8>(), 1..80_usize), 0..40).prop_map(|runs| {
        runs.iter().flat_map(|&(byte, len)| std::iter::repeat_n(byte, len)).collect::<Vec<_>>()
    });
    let repeated = (vec(any::<u8>(), 1..40), 1..60_usize).prop_map(|(word, times)| word.repeat(times));
    prop_oneof![vec(any::<u8>(), 0..600), runs, repeated]
}

/// Returns any tensor with the given type and shape.
pub(crate) fn tensor_of(dtype: DType, shape: Shape) -> BoxedStrategy<Tensor> {
    let count = usize::try_from(shape.num_elements().expect("small shapes")).expect("small shapes");
    let Some(size) = dtype.size_bytes() else {
        let values = vec(vec(any::<u8>(), 0..5), count);
        return values
            .prop_map(move |v| Tensor::from_strings(v, &shape).expect("as many as the shape has"))
            .boxed();
    };
    let bytes = prop_oneof![vec(any::<u8>(), count * size), vec(0..3_u8, count * size)];
    bytes
        .prop_map(move |mut bytes| {
            if dtype == DType::Bool {
                bytes.iter_mut().for_each(|byte| *byte &= 1);
            }
            Tensor::new(dtype, &shape, bytes.into()).expect("as many as the shape has")
        })
        .boxed()
}

/// Returns any small tensor with a leading dimension.
pub(crate) fn batches() -> impl Strategy<Value = Tensor> {
    let shapes = (0..6_u32, vec(0..4_u32, 0..3)).prop_map(|(rows, cell)| Shape::batched(rows, &cell));
    (dtypes(), shapes).prop_flat_map(|(dtype, shape)| tensor_of(dtype, shape))
}

/// Returns a chunk of the given columns.
pub(crate) fn chunk(key: u64, columns: &[Tensor], delta: bool, codec: Codec) -> Arc<Chunk> {
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: true };
    let parts = encode_chunk(key, range, columns, delta, codec).expect("small columns");
    Arc::new(Chunk::new(parts).expect("what was encoded is valid"))
}
