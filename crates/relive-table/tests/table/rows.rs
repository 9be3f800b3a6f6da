//! Tests that copied samples are equal to the samples that would have been returned.

use std::sync::Arc;

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::{
    ErrorBuffer, Freed, InsertOnFirstSample, MAX_ROWS_AT_ONCE, NewItem, RateLimiterConfig, Sampled,
    SampledRow, SelectorKind, Table, TableConfig, Timestamp,
};
use relive_tensor::{
    Chunk, Codec, ColumnLayout, DType, SequenceRange, Shape, Slice, Tensor, TrajectoryBuilder, encode_chunk,
};
use relive_testkit::data;

/// The number of bytes in an item of [`data::item`]: one row of one float.
const SIZE: usize = 4;

#[cfg(test)]
mod common {
    use super::*;

    pub(super) fn rng(seed: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(seed)
    }

    pub(super) fn filled(config: TableConfig, items: impl IntoIterator<Item = NewItem>) -> Table {
        let mut table = Table::new(config, Vec::new()).unwrap();
        insert(&mut table, items);
        table
    }

    pub(super) fn insert(table: &mut Table, items: impl IntoIterator<Item = NewItem>) {
        for item in items {
            table.insert(item, Timestamp::EPOCH, &mut rng(0), &mut Freed::default()).unwrap();
        }
    }

    /// One column of this many floats.
    pub(super) fn layout(rows: u32) -> Arc<[ColumnLayout]> {
        [ColumnLayout { dtype: DType::Float32, cell_shape: Shape::scalar(), rows: Some(rows) }].into()
    }

    pub(super) fn rows_of(sampled: &[Sampled]) -> (Vec<SampledRow>, Vec<u8>) {
        let row = |sampled: &Sampled| SampledRow {
            key: sampled.item.key,
            priority: sampled.priority,
            probability: sampled.probability,
            table_size: sampled.table_size,
            inserted_at: sampled.item.inserted_at,
            times_sampled: sampled.times_sampled,
        };
        let first = |sampled: &Sampled| sampled.item.trajectory.decode_column(0).unwrap();
        let bytes = sampled.iter().flat_map(|sampled| first(sampled).bytes().unwrap().to_vec());
        (sampled.iter().map(row).collect(), bytes.collect())
    }

    /// Returns the bytes that a table copies, and the samples that it returns instead.
    pub(super) fn copy(
        table: &mut Table,
        layout: &Arc<[ColumnLayout]>,
        count: usize,
    ) -> (Vec<SampledRow>, Vec<u8>, usize) {
        let (mut bytes, mut others) = (vec![0xff; layout[0].size_bytes(count).unwrap()], Vec::new());
        let rows = table.sample_rows(layout, count, &mut [&mut bytes], &mut rng(1), &mut others);
        (rows, bytes, others.len())
    }

    /// Returns an item with three columns, in one chunk or in one chunk per column; if there are several, the last one
    /// is compressed.
    pub(super) fn transition(key: u64, value: f32, in_one: bool) -> NewItem {
        let observation = Tensor::from_slice(&[value, -value], [1, 2]).unwrap();
        let columns = [
            observation,
            Tensor::from_bools(&[value > 2.0], [1]).unwrap(),
            Tensor::from_slice(&[value; 40], [1, 40]).unwrap(),
        ];
        let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
        let chunk = |key: u64, columns: &[Tensor], codec| {
            Arc::new(Chunk::new(encode_chunk(key, range, columns, false, codec).unwrap()).unwrap())
        };
        let mut builder = TrajectoryBuilder::new();
        if in_one {
            builder.chunk(chunk(key, &columns, Codec::Raw));
        } else {
            for (number, column) in columns.iter().enumerate() {
                let codec = if number == 2 { Codec::Zstd } else { Codec::Snappy };
                builder.chunk(chunk(3 * key + number as u64, std::slice::from_ref(column), codec));
            }
        }
        for column in 0..3 {
            builder.begin_column(true);
            let (chunk, index) = if in_one { (0, column) } else { (column, 0) };
            builder.slice(Slice { chunk, offset: 0, length: 1, index });
        }
        NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build().unwrap() }
    }
}

use common::{copy, filled, insert, layout, rng, rows_of, transition};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copied_rows_match_the_samples_that_sampling_would_return(
        sampler in prop::sample::select(vec![
            SelectorKind::Uniform, SelectorKind::Fifo, SelectorKind::Lifo, SelectorKind::Prioritized { exponent: 0.7 },
        ]),
        keys in prop::collection::vec(0_u64..100, 1..60),
        max_size in 1_u64..40,
        counts in prop::collection::vec(1_usize..200, 1..5),
        seed: u64,
    ) {
        let config = TableConfig::new("t").sampler(sampler).max_size(max_size);
        let items = |keys: &[u64]| keys.iter().map(|&key| data::item(key, 1.0 + key as f64)).collect::<Vec<_>>();
        let (mut copying, mut sharing) = (filled(config.clone(), items(&keys)), filled(config, items(&keys)));
        let (mut of_copies, mut of_shares) = (rng(seed), rng(seed));
        for count in counts {
            let (mut bytes, mut others, mut shared) = (vec![0; count * SIZE], Vec::new(), Vec::new());
            let rows = copying.sample_rows(&layout(1), count, &mut [&mut bytes], &mut of_copies, &mut others);
            sharing.sample_many(count, &mut of_shares, &mut shared, &mut Freed::default());
            prop_assert_eq!((rows, bytes), rows_of(&shared));
            prop_assert!(others.is_empty());
            prop_assert_eq!(copying.info().samples, sharing.info().samples);
            prop_assert_eq!(copying.info().num_unique_samples, sharing.info().num_unique_samples);
        }
    }
}

#[test]
fn items_with_a_different_layout_are_sampled_with_the_others() {
    let mut table = filled(TableConfig::new("t"), (0..20).map(|key| data::item(key, 1.0)));
    assert_eq!(
        copy(&mut table, &layout(2), 8),
        (Vec::new(), vec![0xff; 64], 0),
        "the table knows no such items"
    );
    let long = data::trajectory(&[data::chunk(100, 2, 0, 2)]);
    insert(&mut table, [NewItem { key: 100, priority: 1.0, times_sampled: 0, trajectory: long }]);
    let (rows, bytes, others) = copy(&mut table, &layout(1), 1_000);
    assert_eq!((rows.len(), others), (0, 1_000));
    assert!(bytes.iter().all(|&byte| byte == 0xff), "nothing was copied");
    assert_eq!(table.info().samples, 1_000);
    table.delete(100, &mut Freed::default());
    assert_eq!(copy(&mut table, &layout(1), 1_000).0.len(), 1_000);
}

#[test]
fn partial_chunks_and_their_replacements_are_copied() {
    let chunk = data::chunk(7, 1, 0, 5);
    let part = |key: u64, first: u32| {
        let mut builder = TrajectoryBuilder::new();
        let chunk = builder.chunk(chunk.clone());
        builder.begin_column(false);
        builder.slice(Slice { chunk, offset: first, length: 2, index: 0 });
        NewItem { key, priority: 1.0, times_sampled: 0, trajectory: builder.build().unwrap() }
    };
    let mut table = filled(TableConfig::new("t").sampler(SelectorKind::Lifo).max_size(1), [part(1, 3)]);
    let floats = |values: [f32; 2]| values.map(f32::to_le_bytes).concat();
    assert_eq!(copy(&mut table, &layout(2), 1).1, floats([10.0, 11.0]));
    insert(&mut table, [part(2, 0)]);
    assert_eq!(copy(&mut table, &layout(2), 1).1, floats([7.0, 8.0]));
}

#[test]
fn copying_obeys_the_rate_limiter() {
    let limiter = RateLimiterConfig::sample_to_insert_ratio(2.0, 1, ErrorBuffer::Around(4.0)).unwrap();
    let config = TableConfig::new("t").rate_limiter(limiter);
    let mut table = filled(config, (0..3).map(|key| data::item(key, 1.0)));
    let allowed =
        std::iter::from_fn(|| table.can_sample(1).unwrap().then(|| copy(&mut table, &layout(1), 1).0))
            .count();
    assert!(allowed > 0);
    assert_eq!(copy(&mut table, &layout(1), 4), (Vec::new(), vec![0xff; 16], 0));
    insert(&mut table, [data::item(3, 1.0)]);
    let (rows, _, others) = copy(&mut table, &layout(1), 4);
    assert_eq!((rows.len(), others), (0, 2), "two are allowed, and handed out");
}

#[test]
fn rows_are_not_copied_if_sampling_has_side_effects() {
    let items = || (0..9).map(|key| data::item(key, 1.0));
    let mut deleting = filled(TableConfig::new("t").max_times_sampled(3), items());
    assert_eq!(copy(&mut deleting, &layout(1), 4).0, []);
    let mut extended =
        Table::new(TableConfig::new("t"), vec![Box::new(InsertOnFirstSample::new("other"))]).unwrap();
    insert(&mut extended, items());
    assert_eq!(copy(&mut extended, &layout(1), 4).0, []);
    assert_eq!((deleting.info().samples, extended.info().samples), (0, 0));
    let mut table = filled(TableConfig::new("t"), items());
    assert_eq!(copy(&mut table, &layout(1), MAX_ROWS_AT_ONCE + 1).0, []);
    let (mut odd, mut others) = ([0; 2 * SIZE + 1], Vec::new());
    assert_eq!(table.sample_rows(&layout(1), 2, &mut [&mut odd], &mut rng(1), &mut others), []);
    assert_eq!(table.sample_rows(&layout(1), 0, &mut [], &mut rng(1), &mut others), []);
    assert_eq!(copy(&mut table, &layout(1), MAX_ROWS_AT_ONCE).0.len(), MAX_ROWS_AT_ONCE);
    assert!(others.is_empty());
}

#[test]
fn a_restored_table_copies_rows() {
    let mut table = filled(TableConfig::new("t"), (0..9).map(|key| data::item(key, 1.0)));
    copy(&mut table, &layout(1), 5);
    let (config, snapshot) = (TableConfig::new("t"), table.snapshot());
    let ledger = Arc::default();
    let mut restored =
        Table::restored(config, Vec::new(), &ledger, snapshot, &mut rng(1), &mut Freed::default()).unwrap();
    assert_eq!(copy(&mut restored, &layout(1), 6), copy(&mut table, &layout(1), 6));
}

#[test]
fn columns_of_any_layout_are_copied_to_their_own_offsets() {
    let mut table =
        filled(TableConfig::new("t"), (0..40).map(|key| transition(key, key as f32, key % 3 != 0)));
    let columns = Arc::clone(table.row_columns().unwrap());
    assert_eq!(
        columns.iter().map(ColumnLayout::cell_bytes).collect::<Vec<_>>(),
        [Some(8), Some(1), Some(160)]
    );
    let (mut observations, mut flags, mut others, mut left) =
        (vec![0; 800], vec![0; 100], vec![0; 16_000], Vec::new());
    let places = &mut [observations.as_mut_slice(), &mut flags, &mut others];
    let rows = table.sample_rows(&columns, 100, places, &mut rng(1), &mut left);
    assert_eq!((rows.len(), left.len()), (100, 0));
    for (at, row) in rows.iter().enumerate() {
        let value = row.key as f32;
        assert_eq!(observations[at * 8..][..8], [value, -value].map(f32::to_le_bytes).concat());
        assert_eq!(flags[at], u8::from(value > 2.0));
        assert_eq!(others[at * 160..][..160], [value; 40].map(f32::to_le_bytes).concat());
    }
}

#[test]
fn unused_layouts_are_replaced() {
    let length = |key: u64| u16::try_from(key % 1_500 + 1).expect("few rows");
    let mut table = filled(TableConfig::new("t").max_size(3), []);
    for key in 0..1_500 {
        let trajectory = data::trajectory(&[data::chunk(key, 1, 0, length(key))]);
        insert(&mut table, [NewItem { key, priority: 1.0, times_sampled: 0, trajectory }]);
        let rows = u32::from(length(key));
        if rows <= 1_024 {
            assert_eq!(table.row_columns(), Some(&layout(rows)), "items of {rows} rows");
        }
    }
    insert(&mut table, (2_000..2_003).map(|key| data::item(key, 1.0)));
    assert_eq!(copy(&mut table, &layout(1), 50).0.len(), 50, "the newest kind is known");
}
