//! Checks that the CPU and the kernels collect the same bytes from a store.

#![expect(unsafe_code, reason = "memory into which a device collects")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::cuda::NUMBERS;
use crate::support::numbers::{mixed, special};
use crate::support::{self, Call};
use proptest::prelude::*;
use relive_gpu::cuda::{
    Collector as DeviceCollector, DeviceBatches, DeviceBuffer, DevicePtr, DeviceStore, Event, Stream,
};
use relive_gpu::{
    Cast, CollectOptions, Collector, Column, ErrorKind, Pad, Schema, Store, StoreOptions, Tier, Window,
};
use relive_tensor::DType;

const MAX_STEPS: u64 = 30;

/// Returns whether a window has a cast to float64 that would lose bits.
fn is_refused(window: &Window, columns: &[Column]) -> bool {
    use DType::{Float64, Int32, Int64, UInt32, UInt64};
    let of = columns.iter().find(|column| column.name == window.column).map(|column| column.dtype);
    window.cast.is_some_and(|cast| cast.to == Float64)
        && matches!(of, Some(Int32 | UInt32 | Int64 | UInt64 | Float64))
}

/// Returns a value that fits the window's type: 2 is no bool.
fn pad_value(value: u8, column: DType, cast: Option<DType>) -> f64 {
    f64::from(if cast.unwrap_or(column) == DType::Bool { value.min(1) } else { value })
}

fn column(number: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| special(mixed(number << 32 | at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn kernels_produce_the_same_batches_as_the_cpu(
        lengths in prop::collection::vec(1..=MAX_STEPS, 1..5),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0..=MAX_STEPS), 1..8),
        windows in prop::collection::vec(
            (0..NUMBERS.len(), -34_i64..34, 1_u64..40, any::<bool>(), 0_u8..3, 0_usize..5), 1..5
        ),
        copy_engine_from in prop_oneof![Just(u64::MAX), Just(0)],
    ) {
        let Some((device, _)) = support::emulated() else { return Ok(()) };
        // One column per type, of different shapes.
        let column_of = |(number, dtype): (u64, &DType)| {
            let shape: &[u64] = [&[5, 7][..], &[3], &[], &[2]][usize::try_from(number % 4).unwrap()];
            Column::new(dtype.numpy_name(), *dtype, shape)
        };
        let columns: Vec<Column> = (0..).zip(&NUMBERS).map(column_of).collect();
        let schema = Schema::new(MAX_STEPS, columns.clone()).unwrap();
        let options = StoreOptions { touch_threads: 0, readers: 2, writers: 0, ..StoreOptions::new(6) };
        let store = Store::create(schema, options).unwrap();
        let mut indices = Vec::new();
        for (number, length) in (0..).zip(&lengths) {
            let data: Vec<Vec<u8>> = (0..).zip(&columns)
                .map(|(at, new)| column(number * 99 + at, *length * new.step_bytes().unwrap()))
                .collect();
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            indices.push(store.insert(&data, *length, 1.0).unwrap().index);
        }
        let casts = [None, Some(DType::Float16), Some(DType::BFloat16), Some(DType::Float32), Some(DType::Float64)];
        let windows: Vec<Window> = windows.into_iter().map(|(at, offset, length, head, value, cast)| Window {
            pad: if head { Pad::Head } else { Pad::Tail },
            pad_value: pad_value(value, columns[at].dtype, casts[cast]),
            cast: casts[cast].map(|to| Cast { to, scale: 0.37 }),
            ..Window::new(columns[at].name.clone(), offset, length)
        }).collect();
        let windows: Vec<Window> = windows.into_iter().filter(|window| !is_refused(window, &columns)).collect();
        prop_assume!(!windows.is_empty());
        let collector = Collector::new(store.reader(), &windows, CollectOptions::new(10)).unwrap();
        let batches = DeviceBatches::new(&device, store.reader(), &windows, 10);
        let picked: Vec<usize> = picks.iter().map(|(pick, _)| pick.index(lengths.len())).collect();
        let steps: Vec<u64> = picked.iter().zip(&picks).map(|(at, (_, step))| (*step).min(lengths[*at])).collect();
        let pinned = store.pin(&picked.iter().map(|at| indices[*at]).collect::<Vec<u64>>()).unwrap();
        let batch = collector.collect(&pinned, &steps).unwrap();
        let bytes_here = store.metrics().collected_bytes;

        let on_device = DeviceStore::shared(&device, store.reader()).unwrap();
        let by_device = DeviceCollector::new(&device).unwrap().with_copy_engine_from(copy_engine_from);
        let out = DeviceBuffer::new(&device, collector.plan().bytes).unwrap();
        on_device.collect(&by_device, collector.plan(), &pinned, &steps, &out).unwrap();
        for (number, plan) in collector.plan().columns.iter().enumerate() {
            let here = batch.column(number).unwrap().bytes;
            let there: Vec<u8> = out.read(plan.output_at, here.len()).unwrap();
            prop_assert!(there == here, "{:?}", windows[number]);
        }

        let batches = batches.unwrap();
        let (rest, pinned) = ([3; 40], Arc::new(pinned));
        let lists_at = collector.plan().bytes;
        let rest_at = lists_at + batches.list_bytes(pinned.rows().len() as u64);
        let out = DeviceBuffer::new(&device, rest_at + 40).unwrap();
        // SAFETY: the memory is large enough, and this waits for the event before it ends.
        let complete = unsafe { batches.collect(&pinned, &steps, &[&rest[..9], &rest[9..]], out.address(), device.stream()) }.unwrap();
        complete.finish().unwrap();
        prop_assert_eq!(out.read::<u8>(rest_at, 40).unwrap(), rest);
        let lists: Vec<u64> = out.read(lists_at, (windows.len() + 2) * steps.len()).unwrap();
        let mut lists = lists.chunks(steps.len());
        for (number, plan) in collector.plan().columns.iter().enumerate() {
            let column = batch.column(number).unwrap();
            prop_assert!(out.read::<u8>(plan.output_at, column.bytes.len()).unwrap() == column.bytes);
            let valid = column.valid.iter().map(|steps| u64::from(*steps)).collect::<Vec<u64>>();
            prop_assert_eq!(lists.next().unwrap(), valid);
        }
        let lengths: Vec<u64> = pinned.rows().iter().map(|row| row.length).collect();
        prop_assert_eq!(lists.collect::<Vec<_>>(), [&lengths[..], &steps[..]]);
        drop(batches);
        let others = pinned.rows().iter().map(|row| row.index).collect::<Vec<u64>>();
        drop(pinned);
        // The pins end with the collection, so that every trajectory can be replaced.
        while others.iter().any(|index| store.status(*index).unwrap().pins > 0) {
            std::thread::yield_now();
        }
        let metrics = store.metrics();
        prop_assert_eq!((metrics.collects, metrics.collected_rows), (2, 2 * steps.len() as u64));
        prop_assert_eq!(metrics.collected_bytes, 2 * bytes_here);
    }
}

fn small_store() -> Store {
    let schema = Schema::new(2, vec![Column::new("x", DType::UInt8, &[16])]).unwrap();
    let options = StoreOptions { touch_threads: 0, ..StoreOptions::new(4) };
    let store = Store::create(schema, options).unwrap();
    for _ in 0..4 {
        store.insert(&[&[1; 32]], 2, 1.0).unwrap();
    }
    store
}

#[test]
fn columns_in_files_are_not_locked_in_memory() {
    let (device, _, _) = support::hanging();
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::new(2, vec![Column::new("x", DType::UInt8, &[16])]).unwrap();
    let mut options = StoreOptions { touch_threads: 0, ..StoreOptions::new(4) };
    options.tiers.insert("x".into(), Tier::File(directory.path().join("x.column")));
    let store = Store::create(schema, options).unwrap();
    let error = DeviceStore::shared(&device, store.reader()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("a column of the store is in a file"), "{error}");
}

/// A device may be late for any reason, for example because its stream waits for another machine. Such a wait is no
/// part of the time of a collection.
#[test]
fn trajectories_stay_pinned_for_as_long_as_the_device_may_read_them() {
    let (device, hangs, log) = support::hanging();
    let store = small_store();
    let pins = || (0..4).map(|index| store.status(index).unwrap().pins).sum::<u64>();
    let batches = DeviceBatches::new(&device, store.reader(), &[Window::new("x", -1, 1)], 4).unwrap();
    hangs.store(true, Ordering::SeqCst);
    // More collections than lists exist at first.
    for count in 1..8 {
        let pinned = Arc::new(store.pin(&[0, 3]).unwrap());
        // SAFETY: the driver neither reads nor writes.
        unsafe { batches.collect(&pinned, &[2, 2], &[], DevicePtr(1 << 40), Stream(5)) }.unwrap();
        drop(pinned);
        assert_eq!(pins(), 2 * count);
    }
    drop(batches);
    assert_eq!((pins(), store.metrics().collects), (14, 0));
    let of_stream = |call: &Call| match call {
        Call::Record(event, Stream(5)) => Some(Some(*event)),
        Call::Copy(_, Stream(5)) | Call::Launch { stream: Stream(5), .. } => Some(None),
        _ => None,
    };
    let calls: Vec<Option<Event>> = log.lock().unwrap().iter().filter_map(of_stream).collect();
    let (begin, complete) = (calls[0].unwrap(), calls[5].unwrap());
    assert_eq!(calls.len(), 7 * 6, "each collection: {calls:?}");
    assert_eq!(calls[1..4], [None; 3], "the lists, the tail and the kernel are between two events");
    assert_ne!(begin, complete);
    let resumed = Instant::now();
    hangs.store(false, Ordering::SeqCst);
    while pins() > 0 {
        std::thread::yield_now();
    }
    let metrics = store.metrics();
    assert_eq!((metrics.collects, metrics.collected_rows, metrics.collected_bytes), (7, 14, 14 * 16));
    assert!(metrics.collect_time <= resumed.elapsed(), "{metrics:?}");
}

/// The driver refuses memory that is still registered.
#[test]
fn a_store_is_registered_again_after_its_last_use() {
    let (device, _, _) = support::hanging();
    let store = small_store();
    let windows = [Window::new("x", -1, 1)];
    for _ in 0..200 {
        let first = DeviceBatches::new(&device, store.reader(), &windows, 4).unwrap();
        let second = DeviceBatches::new(&device, store.reader(), &windows, 4).unwrap();
        let pinned = Arc::new(store.pin(&[0, 1]).unwrap());
        // SAFETY: the driver neither reads nor writes.
        unsafe { first.collect(&pinned, &[2, 2], &[], DevicePtr(1 << 40), Stream(5)) }.unwrap();
        drop((first, second, pinned));
    }
}
