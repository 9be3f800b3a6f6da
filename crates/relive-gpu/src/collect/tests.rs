//! Compares batches with a loop over single steps.

use proptest::prelude::*;
use relive_tensor::DType;

use super::*;
use crate::error::ErrorKind;
use crate::schema::{Column, Schema};
use crate::store::{Inserted, Store, StoreOptions};

const MAX_STEPS: u64 = 12;

fn store(columns: Vec<Column>) -> Store {
    let options = StoreOptions { touch_threads: 0, readers: 2, writers: 0, ..StoreOptions::new(6) };
    Store::create(Schema::new(MAX_STEPS, columns).unwrap(), options).unwrap()
}

/// Returns a trajectory's bytes; neighboring bytes differ.
fn bytes(row: u64, column: usize, count: u64) -> Vec<u8> {
    let salt = row * 31 + column as u64 * 7 + 1;
    (0..count).map(|i| u8::try_from((i * 13 + salt) % 251).unwrap()).collect()
}

fn insert(store: &Store, number: u64, length: u64) -> Inserted {
    let columns: Vec<Vec<u8>> = (0..store.schema().columns().len())
        .map(|column| bytes(number, column, length * store.schema().step_bytes(column)))
        .collect();
    let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
    store.insert(&columns, length, 1.0).unwrap()
}

/// Returns a row of a batch, step by step.
fn naive(source: &[u8], step_bytes: usize, steps: u64, step: u64, window: &Window, pad: &[u8]) -> Vec<u8> {
    let wanted = (0..window.length).map(|i| i64::try_from(step + i).unwrap() + window.offset);
    let there: Vec<usize> = wanted
        .filter(|&t| t >= 0 && t < i64::try_from(steps).unwrap())
        .map(|t| usize::try_from(t).unwrap())
        .collect();
    let data: Vec<u8> =
        there.iter().flat_map(|t| source[t * step_bytes..(t + 1) * step_bytes].to_vec()).collect();
    let missing = usize::try_from(window.length).unwrap() - there.len();
    let padding: Vec<u8> = pad.iter().copied().cycle().take(missing * step_bytes).collect();
    match window.pad {
        Pad::Head => [padding, data].concat(),
        Pad::Tail => [data, padding].concat(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Defects 13, 14, 21 and 22: rows are at their own places, each trajectory has its own length, and blocks have any
    /// size.
    #[test]
    fn batches_match_the_naive_model(
        rows in proptest::collection::vec((1..=MAX_STEPS, 0..=MAX_STEPS), 1..6),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..20),
        windows in proptest::collection::vec((0_usize..3, -14_i64..14, 1_u64..16, any::<bool>(), 0_u8..3), 1..5),
        threads in 1_usize..4, sorted in any::<bool>(),
    ) {
        let columns = [("a", DType::UInt8, vec![3]), ("b", DType::Float32, vec![2, 2]), ("c", DType::Int16, vec![])];
        let store = store(columns.iter().map(|(name, dtype, shape)| Column::new(*name, *dtype, shape)).collect());
        let inserted: Vec<Inserted> = (0..).zip(&rows).map(|(n, (length, _))| insert(&store, n, *length)).collect();
        let windows: Vec<Window> = windows.into_iter().map(|(column, offset, length, head, value)| Window {
            pad: if head { Pad::Head } else { Pad::Tail },
            pad_value: f64::from(value),
            ..Window::new(columns[column].0, offset, length)
        }).collect();
        let options = CollectOptions { threads, sorted, ..CollectOptions::new(20) };
        let collector = Collector::new(store.reader(), &windows, options).unwrap();
        let picks: Vec<usize> = picks.iter().map(|pick| pick.index(rows.len())).collect();
        let indices: Vec<u64> = picks.iter().map(|&pick| inserted[pick].index).collect();
        let steps: Vec<u64> = picks.iter().map(|&pick| rows[pick].1.min(rows[pick].0)).collect();
        let pinned = store.pin(&indices).unwrap();
        // The collection runs twice, so that the second run reuses the memory of the first.
        drop(collector.collect(&pinned, &steps).unwrap());
        let batch = collector.collect(&pinned, &steps).unwrap();
        for (number, window) in windows.iter().enumerate() {
            let column = store.schema().position(&window.column).unwrap();
            let step_bytes = store.schema().step_bytes(column);
            let found = batch.column(number).unwrap();
            prop_assert_eq!(found.bytes.as_ptr().addr() % 256, 0);
            let pad = collector.plan().columns[number].pad_element().to_vec();
            for (row, &pick) in picks.iter().enumerate() {
                let source = bytes(pick as u64, column, rows[pick].0 * step_bytes);
                let step_bytes = usize::try_from(step_bytes).unwrap();
                let expected = naive(&source, step_bytes, rows[pick].0, steps[row], window, &pad);
                let size = expected.len();
                prop_assert_eq!(&found.bytes[row * size..(row + 1) * size], &expected);
                let valid = u64::from(found.valid[row]);
                prop_assert_eq!(valid, span(steps[row], rows[pick].0, window.offset, window.length, window.pad).count);
            }
        }
    }
}

#[test]
fn casts_scale_and_pad_in_the_new_type() {
    let store = store(vec![Column::new("image", DType::UInt8, &[2])]);
    let row = insert(&store, 0, 3);
    let window = Window {
        cast: Some(Cast { to: DType::Float32, scale: 0.5 }),
        pad: Pad::Tail,
        pad_value: -1.0,
        ..Window::new("image", 1, 4)
    };
    let collector = Collector::new(store.reader(), &[window], CollectOptions::new(1)).unwrap();
    let batch = collector.collect(&store.pin(&[row.index]).unwrap(), &[0]).unwrap();
    assert_eq!(batch.shape(0).unwrap(), [1, 4, 2]);
    let values: &[f32] = bytemuck::cast_slice(batch.column(0).unwrap().bytes);
    let source: Vec<f32> = bytes(0, 0, 6)[2..].iter().map(|&byte| f32::from(byte) * 0.5).collect();
    assert_eq!(values[..4], source);
    assert_eq!(values[4..], [-1.0; 4]);
}

#[test]
fn output_memory_is_reused_and_waiting_for_it_times_out() {
    let store = store(vec![Column::new("a", DType::UInt8, &[3])]);
    let row = insert(&store, 0, 3);
    let options = CollectOptions {
        batches: 1,
        patience: std::time::Duration::from_millis(10),
        ..CollectOptions::new(2)
    };
    let collector = Collector::new(store.reader(), &[Window::new("a", 0, 1)], options).unwrap();
    let pinned = store.pin(&[row.index]).unwrap();
    let batch = collector.collect(&pinned, &[0]).unwrap();
    let first = batch.column(0).unwrap().bytes.as_ptr().addr();
    assert_eq!(collector.collect(&pinned, &[0]).unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(store.metrics().waits, 1);
    drop(batch);
    let batch = collector.collect(&pinned, &[0]).unwrap();
    assert_eq!(batch.column(0).unwrap().bytes.as_ptr().addr(), first);
    assert_eq!((store.metrics().collects, store.metrics().collected_bytes), (2, 6));
}

/// The memory of a batch is created only when all earlier batches are in use at the same time.
#[test]
fn output_memory_is_created_when_it_is_needed() {
    let store = store(vec![Column::new("a", DType::UInt8, &[3])]);
    let row = insert(&store, 0, 3);
    let options =
        CollectOptions { batches: 2, patience: std::time::Duration::ZERO, ..CollectOptions::new(1) };
    let collector = Collector::new(store.reader(), &[Window::new("a", 0, 1)], options).unwrap();
    let pinned = store.pin(&[row.index]).unwrap();
    let collect = || collector.collect(&pinned, &[0]);
    for _ in 0..3 {
        drop(collect().unwrap());
        assert_eq!(collector.batches_created(), 1);
    }
    let both = [collect().unwrap(), collect().unwrap()];
    assert_eq!(collector.batches_created(), 2);
    assert_eq!(collect().unwrap_err().kind(), ErrorKind::Unavailable);
    drop(both);
    drop(collect().unwrap());
    assert_eq!(collector.batches_created(), 2);
}

#[test]
fn invalid_collect_requests_are_refused() {
    let store = store(vec![Column::new("a", DType::UInt8, &[3])]);
    let row = insert(&store, 0, 3);
    let options = CollectOptions::new(2);
    for (windows, options, kind) in [
        (vec![], options, ErrorKind::InvalidArgument),
        (vec![Window::new("b", 0, 1)], options, ErrorKind::NotFound),
        (vec![Window::new("a", 0, 0)], options, ErrorKind::InvalidArgument),
        (vec![Window::new("a", 0, 1)], CollectOptions { rows: 0, ..options }, ErrorKind::InvalidArgument),
        (vec![Window::new("a", 0, 1)], CollectOptions { batches: 0, ..options }, ErrorKind::InvalidArgument),
        (vec![Window::new("a", 0, u64::MAX)], options, ErrorKind::InvalidArgument),
        (vec![Window { pad_value: 300.0, ..Window::new("a", 0, 1) }], options, ErrorKind::InvalidArgument),
    ] {
        let error = Collector::new(store.reader(), &windows, options).unwrap_err();
        assert_eq!(error.kind(), kind, "{windows:?} {options:?} {error}");
    }
    let collector = Collector::new(store.reader(), &[Window::new("a", 0, 1)], options).unwrap();
    let pinned = store.pin(&[row.index]).unwrap();
    for steps in [&[4][..], &[], &[0, 0]] {
        assert_eq!(collector.collect(&pinned, steps).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let many = store.pin(&[row.index; 3]).unwrap();
    assert!(collector.collect(&many, &[0; 3]).unwrap_err().to_string().contains("at most 2 rows"));
}

/// Defects 22 and 23: the last byte of a store of 6 GiB, most of which is untouched, is saved to a checkpoint and
/// loaded again.
#[test]
fn rows_beyond_4_gib_are_addressed_correctly() {
    const STEPS: u64 = 16_384;
    let schema = Schema::new(STEPS, vec![Column::new("a", DType::UInt8, &[4096])]).unwrap();
    let options = StoreOptions { touch_threads: 0, readers: 2, writers: 0, ..StoreOptions::new(96) };
    let store = Store::create(schema, options).unwrap();
    let mut last = None;
    for row in 0_u8..96 {
        let mut writing = store.begin().unwrap();
        let length = if row == 95 { STEPS } else { 1 };
        writing.step(0, length - 1).unwrap().fill(row);
        last = Some(writing.commit(length, 1.0).unwrap());
    }
    let last = last.unwrap();
    assert!(store.segment_bytes() > 6 << 30);
    let folder = tempfile::tempdir().unwrap();
    store.save(folder.path()).unwrap();
    let checkpoint = crate::checkpoint::Checkpoint::open(folder.path()).unwrap();
    let options = StoreOptions { touch_threads: 0, ..checkpoint.options().unwrap() };
    for store in [store, checkpoint.load(None, options).unwrap()] {
        let collector =
            Collector::new(store.reader(), &[Window::new("a", -1, 2)], CollectOptions::new(2)).unwrap();
        let pinned = store.pin(&[last.index, 3]).unwrap();
        let batch = collector.collect(&pinned, &[STEPS, 1]).unwrap();
        let bytes = batch.column(0).unwrap().bytes;
        let halves = [&bytes[4096..8192], &bytes[8192 + 4096..]];
        assert!(halves[0].iter().all(|&byte| byte == 95) && halves[1].iter().all(|&byte| byte == 3));
    }
}
