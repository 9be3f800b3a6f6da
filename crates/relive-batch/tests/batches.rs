//! Batches contain the decoded data of their items, regardless of how the items are stored in chunks.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use relive_batch::Batch;
use relive_table::{ItemData, Sampled, Timestamp};
use relive_tensor::{
    Chunk, Codec, ResidenceGuard, SequenceRange, Slice, Tensor, Trajectory, TrajectoryBuilder, encode_chunk,
};

#[cfg(test)]
mod common {
    use super::*;

    /// The number of rows in a chunk.
    pub(super) const ROWS: u32 = 4;

    /// Returns a chunk with two columns: pairs of numbers and flags. Equal numbers (`alike`) shrink if the codec
    /// compresses.
    pub(super) fn chunk(key: u32, codec: Codec, alike: bool) -> Arc<Chunk> {
        let number = |at: u32| if alike { 7 } else { key << 8 | at };
        let numbers: Vec<u32> = (0..2 * ROWS).map(number).collect();
        let flags: Vec<bool> = (0..ROWS).map(|row| (row + key).is_multiple_of(3)).collect();
        let columns =
            [Tensor::from_slice(&numbers, [ROWS, 2]).unwrap(), Tensor::from_bools(&flags, [ROWS]).unwrap()];
        let range = SequenceRange { episode_id: 1, start: 0, end: 3, sparse: false };
        Arc::new(Chunk::new(encode_chunk(key.into(), range, &columns, false, codec).unwrap()).unwrap())
    }

    /// An item of both columns. Each column consists of slices: chunk, first row, number of rows.
    pub(super) fn item(chunks: &[Arc<Chunk>], columns: [&[(usize, u32, u32)]; 2]) -> Trajectory {
        let mut builder = TrajectoryBuilder::new();
        for (index, slices) in (0..).zip(columns) {
            builder.begin_column(false);
            for &(chunk, offset, length) in slices {
                let chunk = builder.chunk(Arc::clone(&chunks[chunk]));
                builder.slice(Slice { chunk, offset, length, index });
            }
        }
        builder.build().unwrap()
    }

    pub(super) fn sampled(key: u64, trajectory: Trajectory) -> Sampled {
        let item = ItemData { trajectory, key, sequence: key, inserted_at: Timestamp::EPOCH };
        Sampled {
            item: Arc::new(item),
            priority: 1.0,
            probability: 1.0,
            table_size: 1,
            times_sampled: 1,
            rate_limited: false,
            residence_guard: ResidenceGuard::default(),
        }
    }
}

fn slices() -> impl Strategy<Value = Vec<(usize, u32, u32)>> {
    let slice = (0..3_usize, 0..common::ROWS)
        .prop_flat_map(|(chunk, first)| (Just(chunk), Just(first), 1..=common::ROWS - first));
    vec(slice, 1..4)
}

proptest! {
    #[test]
    fn columns_match_the_decoded_items(
        kinds in vec((prop::sample::select(vec![Codec::Raw, Codec::Snappy, Codec::Zstd]), any::<bool>()), 3),
        items in vec((slices(), slices()), 1..20),
        extra in 0..3_u32,
    ) {
        let chunks: Vec<_> =
            (0..).zip(&kinds).map(|(key, &(codec, alike))| common::chunk(key, codec, alike)).collect();
        let items: Vec<Trajectory> = items.iter().map(|(a, b)| common::item(&chunks, [a, b])).collect();
        let decoded: Vec<Vec<Tensor>> = items.iter().map(|item| item.decode().unwrap()).collect();
        let samples = (0..).zip(items).map(|(key, item)| common::sampled(key, item)).collect();
        let batch = Batch::new(samples).unwrap();
        for column in 0..2 {
            let described = &batch.columns()[column];
            let expected: Vec<&[u8]> = decoded.iter().map(|item| item[column].bytes().unwrap().as_ref()).collect();
            let rows: Vec<u32> = decoded.iter().map(|item| item[column].shape().rows().unwrap()).collect();
            prop_assert_eq!(described.rows(decoded.len()), rows.clone());
            let mut packed = vec![0xff; described.size_bytes(decoded.len()).unwrap()];
            batch.gather_into([(column, packed.as_mut_slice())]).unwrap();
            prop_assert_eq!(&packed, &expected.concat());
            let room = rows.iter().max().unwrap() + extra;
            let row_bytes = described.layout.cell_bytes().unwrap();
            let mut padded = vec![0xff; row_bytes * room as usize * decoded.len()];
            batch.gather_padded_into(column, room, &mut padded).unwrap();
            for (place, expected) in padded.chunks(row_bytes * room as usize).zip(expected) {
                let (mine, rest) = place.split_at(expected.len());
                prop_assert_eq!(mine, expected);
                prop_assert!(rest.iter().all(|&byte| byte == 0xff), "room beyond the rows is left as it is");
            }
        }
        let (mut short, len) = ([0], batch.columns()[0].size_bytes(decoded.len()).unwrap());
        prop_assert!(len != 1 && batch.gather_into([(0, short.as_mut_slice())]).is_err());
    }
}
