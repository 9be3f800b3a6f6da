//! Tests the CUDA code without a GPU: the kernels, compiled for the CPU, give the same bits as the CPU implementation,
//! and the driver receives the expected calls.

#![expect(unsafe_code, reason = "addresses of the tests' own memory")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::numbers::{mixed, special, weight};
use crate::support::{Call, Fault, Mapping, emulated, recorded};
use proptest::prelude::*;
use relive_gpu::cuda::{
    Collector, ColumnPlan, Copy, Device, DeviceBuffer, DeviceDraws, DeviceWeights, HostRegistration,
    MAX_REGISTRATION_BYTES, Rows, Stream,
};
use relive_gpu::select::{Order, Pool, Selection, Selector, Weights, WeightsConfig};
use relive_gpu::{Convert, Pad};
use relive_tensor::DType;

pub(crate) const KINDS: [Selection; 8] = [
    Selection::Uniform,
    Selection::Weighted,
    Selection::Stratified,
    Selection::Prioritized { beta: 0.4, stratified: true },
    Selection::TopK,
    Selection::Fifo,
    Selection::Lifo,
    Selection::WithoutReplacement,
];

fn select_everywhere(device: &Device, capacity: u64, first: u64, exponent: f32) {
    let total_capacity = capacity + first + 17;
    let config = WeightsConfig { first, total_capacity, exponent, ..WeightsConfig::new(capacity) };
    let all: Vec<f32> = (0..capacity).map(weight).collect();
    let inserted: Vec<u64> = (0..capacity).map(|index| mixed(index) % (capacity / 2)).collect();
    let (mut host, mut other) = (Weights::new(config).unwrap(), DeviceWeights::new(device, config).unwrap());
    host.load(&all).unwrap();
    other.load(&all).unwrap();
    let numbers = DeviceBuffer::new(device, capacity * 8).unwrap();
    numbers.write(0, &inserted).unwrap();

    // Several updates of one index: the last one counts.
    let changed: Vec<u64> = (0..500).map(|number| first + mixed(number * 7) % capacity.min(300)).collect();
    let values: Vec<f32> = (0..500).map(|number| weight(number + 1_000_000)).collect();
    host.update(&changed, &values).unwrap();
    other.update(&changed, &values).unwrap();
    assert_eq!(other.weights().unwrap(), host.weights());

    // There are ranks before and after this one, so that it has only a part of the mass.
    let mut neighbors = Vec::new();
    for range in [0..first, capacity + first..total_capacity] {
        if !range.is_empty() {
            let config = WeightsConfig { first: range.start, capacity: range.end - range.start, ..config };
            let mut weights = Weights::new(config).unwrap();
            weights.load(&range.map(weight).collect::<Vec<f32>>()).unwrap();
            neighbors.push(weights);
        }
    }
    let count = 150;
    for selection in KINDS {
        let pools = [Pool::with_inserted(&host, &inserted), other.pool_with_inserted(&numbers)];
        let selector = Selector::new(capacity);
        let [here, there] = pools.map(|pool| {
            let mut selector = selector.clone();
            let own = selector.summary(&pool, selection, count).unwrap();
            let sequence: Vec<Vec<u64>> =
                neighbors.iter().map(|weights| vec![5; weights.weights().len()]).collect();
            let others = neighbors.iter().zip(&sequence).map(|(weights, inserted)| {
                selector.summary(&Pool::with_inserted(weights, inserted), selection, count).unwrap()
            });
            let mut summaries: Vec<_> = others.collect();
            let rank = usize::from(first > 0);
            summaries.insert(rank, own.clone());
            let part = selector.select_with(&pool, &summaries, rank, selection, count).unwrap();
            (own.to_bytes(), part.to_bytes())
        });
        assert!(here == there, "{selection:?} of {capacity} from {first} with exponent {exponent}");
    }
}

/// Tests every kind of selection on ranks with and without neighbors, in several super-tiles, with and without powers.
#[test]
fn kernels_select_the_same_rows_as_the_cpu() {
    let Some((device, _)) = emulated() else { return };
    select_everywhere(&device, 300, 0, 1.0);
    select_everywhere(&device, 4_099, 1_001, 0.6);
    select_everywhere(&device, 140_001, 10, 1.0);
    select_everywhere(&device, 70_001, 0, 0.0);
}

/// Draws that stay on the device are the same as on the CPU, both before and after updates.
pub(crate) fn draw_everywhere(device: &Device, capacity: u64, exponent: f32, count: u64) {
    let config = WeightsConfig { exponent, ..WeightsConfig::new(capacity) };
    let (mut host, mut other) = (Weights::new(config).unwrap(), DeviceWeights::new(device, config).unwrap());
    let mut drawn = DeviceDraws::new(device, count).unwrap();
    let [mut here, mut there] = [Selector::new(9), Selector::new(9)];
    for round in 0..3 {
        let all: Vec<f32> = (0..capacity).map(|index| weight(index + round)).collect();
        if round == 0 {
            host.load(&all).unwrap();
            other.load(&all).unwrap();
        } else {
            let changed: Vec<u64> =
                (0..capacity / 3).map(|number| mixed(number + round) % capacity).collect();
            let values: Vec<f32> = changed.iter().map(|index| weight(index + round)).collect();
            host.update(&changed, &values).unwrap();
            other.update(&changed, &values).unwrap();
        }
        for selection in KINDS {
            let expected = here.clone().select(&Pool::new(&host), selection, count, Order::AsDrawn);
            match other.draw(&mut there, selection, count, &mut drawn) {
                Ok(()) => assert!(drawn.read().unwrap() == expected.unwrap(), "{selection:?} of {capacity}"),
                Err(error) => {
                    assert!(error.to_string().contains("does not draw with replacement"), "{error}");
                    continue;
                }
            }
            here.select(&Pool::new(&host), selection, count, Order::AsDrawn).unwrap();
            assert_eq!(here, there);
        }
    }
    let refused = other.draw(&mut there, Selection::Uniform, count + 1, &mut drawn).unwrap_err();
    assert!(refused.to_string().contains("draws do not fit in memory for"), "{refused}");
    other.load(&vec![0.0; usize::try_from(capacity).unwrap()]).unwrap();
    let empty = other.draw(&mut there, Selection::Weighted, 1, &mut drawn).unwrap_err();
    assert!(empty.to_string().contains("0 have a weight above 0"), "{empty}");
}

#[test]
fn draws_that_stay_on_the_device_match_those_of_the_cpu() {
    let Some((device, _)) = emulated() else { return };
    draw_everywhere(&device, 300, 1.0, 77);
    draw_everywhere(&device, 70_001, 0.6, 1_000);
}

/// There are few selectable indices in four super-tiles, so that many draws fall at the very start of tiles and
/// super-tiles.
#[test]
fn kernels_find_the_starts_of_tiles() {
    let Some((device, _)) = emulated() else { return };
    let config = WeightsConfig::new(200_000);
    let mut other = DeviceWeights::new(&device, config).unwrap();
    let mut host = Weights::new(config).unwrap();
    let indices = [0, 255, 256, 65_535, 65_536, 131_072, 199_999];
    other.update(&indices, &[1.0; 7]).unwrap();
    host.update(&indices, &[1.0; 7]).unwrap();
    for selection in [Selection::Uniform, Selection::Stratified] {
        let pools = [Pool::new(&host), other.pool()];
        let [here, there] =
            pools.map(|pool| Selector::new(3).select(&pool, selection, 210, Order::ByIndex).unwrap());
        assert_eq!(here, there);
        assert!(indices.iter().all(|index| here.indices.contains(index)), "{selection:?}");
    }
}

/// There are so many equal keys that ties must also be broken by index.
#[test]
fn equal_keys_are_selected_by_lower_index() {
    let Some((device, _)) = emulated() else { return };
    let mut weights = DeviceWeights::new(&device, WeightsConfig::new(150_000)).unwrap();
    let all: Vec<f32> = (0..150_000u32).map(|index| if index < 1_000 { 0.0 } else { 1.0 }).collect();
    weights.load(&all).unwrap();
    weights.update(&[149_999, 70_000], &[3.0, 2.0]).unwrap();
    let selected = Selector::new(0).select(&weights.pool(), Selection::TopK, 100, Order::AsDrawn).unwrap();
    let expected: Vec<u64> = [149_999, 70_000].into_iter().chain(1_000..1_098).collect();
    assert_eq!(selected.indices, expected);
}

#[test]
fn an_update_refused_on_the_device_changes_nothing() {
    let Some((device, _)) = emulated() else { return };
    let config = WeightsConfig { first: 100, total_capacity: 400, ..WeightsConfig::new(300) };
    let mut weights = DeviceWeights::new(&device, config).unwrap();
    weights.load(&vec![1.0; 300]).unwrap();
    let lists = DeviceBuffer::new(&device, 1 << 12).unwrap();
    let good = ([110u64, 110, 399], [5.0f32, 6.0, 0.0]);
    let bad = [
        ([110u64, 400, 120], [5.0f32, 5.0, 5.0], 1),
        ([99, 110, 120], [5.0, 5.0, 5.0], 0),
        ([110, 120, 130], [5.0, 5.0, f32::NAN], 2),
        ([110, 120, 130], [5.0, -1.0, -1.0], 1),
        ([110, 120, 130], [5.0, 65_537.0, 1.0], 1),
    ];
    for (indices, values, number) in bad {
        lists.write(0, &indices).unwrap();
        lists.write(64, &values).unwrap();
        let at = lists.address();
        // SAFETY: both lists are complete and in device memory.
        let error = unsafe { weights.update_from(at, at.at(64), 3) }.unwrap_err().to_string();
        assert!(error.contains(&format!("entry {number} of an update")), "{error}");
        assert_eq!(weights.weights().unwrap(), vec![1.0; 300]);
    }
    lists.write(0, &good.0).unwrap();
    lists.write(64, &good.1).unwrap();
    // SAFETY: both lists are complete and in device memory.
    unsafe { weights.update_from(lists.address(), lists.address().at(64), 3) }.unwrap();
    let now = weights.weights().unwrap();
    assert_eq!((now[10], now[299], now[11]), (6.0, 0.0, 1.0));
}

/// Converts values one by one, as an independent reference.
fn converted(Convert { from, to, scale }: Convert, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for element in bytes.chunks(from.size_bytes().unwrap()) {
        #[expect(clippy::cast_precision_loss, reason = "rounding is intended")]
        let value = match from {
            DType::Bool => f32::from(u8::from(element[0] != 0)),
            DType::UInt8 => f32::from(element[0]),
            DType::Int8 => f32::from(element[0].cast_signed()),
            DType::Int16 => f32::from(i16::from_le_bytes(element.try_into().unwrap())),
            DType::UInt16 => f32::from(u16::from_le_bytes(element.try_into().unwrap())),
            DType::Int32 => i32::from_le_bytes(element.try_into().unwrap()) as f32,
            DType::UInt32 => u32::from_le_bytes(element.try_into().unwrap()) as f32,
            DType::Int64 => i64::from_le_bytes(element.try_into().unwrap()) as f32,
            DType::UInt64 => u64::from_le_bytes(element.try_into().unwrap()) as f32,
            DType::Float16 => half::f16::from_le_bytes(element.try_into().unwrap()).to_f32(),
            DType::BFloat16 => half::bf16::from_le_bytes(element.try_into().unwrap()).to_f32(),
            DType::Float32 => f32::from_le_bytes(element.try_into().unwrap()),
            #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
            DType::Float64 => f64::from_le_bytes(element.try_into().unwrap()) as f32,
            other => panic!("{other} is not converted"),
        };
        let product = value * scale;
        let value = if product.is_nan() && !value.is_nan() { f32::NAN } else { product };
        match to {
            DType::Float16 => out.extend(half::f16::from_f32(value).to_le_bytes()),
            DType::BFloat16 => out.extend(half::bf16::from_f32(value).to_le_bytes()),
            DType::Float64 => out.extend(f64::from(value).to_le_bytes()),
            _ => out.extend(value.to_le_bytes()),
        }
    }
    out
}

/// Converts rows of all types to all floats: NaN, infinities and the limits of integers are among their values.
pub(crate) fn convert_everywhere(device: &Device, row_bytes: u64) {
    let words = aligned(usize::try_from(3 * row_bytes).unwrap(), |at| special(mixed(at)));
    let store: Vec<u8> = bytemuck::cast_slice(&words).to_vec();
    let address = words.as_ptr() as u64;
    // SAFETY: the registration owns the memory, whose address does not change when the vector moves.
    let memory = unsafe { HostRegistration::new(device, address, 3 * row_bytes, Box::new(words)) }.unwrap();
    let out = DeviceBuffer::new(device, 2 * 8 * row_bytes).unwrap();
    let length = row_bytes / 8;
    let rows = Rows { indices: &[2, 0], steps: &[0; 2], lengths: &[length; 2] };
    let collector = Collector::new(device).unwrap();
    for (from, to) in NUMBERS.into_iter().flat_map(|from| FLOATS.map(|to| (from, to))) {
        for scale in [1.0, 0.37, 0.0] {
            let convert = Some(Convert { from, to, scale });
            let column = ColumnPlan {
                source: memory.on_device().0,
                store_rows: 3,
                row_stride: row_bytes,
                step_bytes: 8,
                offset: 0,
                length,
                pad: Pad::Tail,
                padding: [0; 16],
                convert,
                out: out.address().0,
            };
            // SAFETY: the store is valid, and the output has room for the widest conversion.
            unsafe { collector.collect(&[column], rows, device.stream()).unwrap() };
            let expected = naive(&column, &store, rows);
            let found: Vec<u8> = out.read(0, expected.len()).unwrap();
            assert!(found == expected, "{convert:?}");
        }
    }
}

#[test]
fn values_are_converted_to_the_same_bits() {
    let Some((device, _)) = emulated() else { return };
    convert_everywhere(&device, 4096);
}

/// Computes the expected output of a collection byte by byte.
fn naive(column: &ColumnPlan, store: &[u8], rows: Rows<'_>) -> Vec<u8> {
    let size = |number: u64| usize::try_from(number).unwrap();
    let mut out = Vec::new();
    for row in 0..rows.indices.len() {
        let wanted = rows.steps[row] + column.offset;
        let length = i64::try_from(column.length).unwrap();
        let limit = i64::try_from(rows.lengths[row]).unwrap();
        let there: Vec<i64> = (wanted..wanted + length).filter(|step| (0..limit).contains(step)).collect();
        let begin = size(rows.indices[row] * column.row_stride);
        let mut data = Vec::new();
        for step in &there {
            let begin = begin + usize::try_from(*step).unwrap() * size(column.step_bytes);
            let bytes = &store[begin..begin + size(column.step_bytes)];
            match column.convert {
                None => data.extend(bytes),
                Some(conversion) => data.extend(converted(conversion, bytes)),
            }
        }
        let missing = size(column.out_row_bytes()) - data.len();
        let pad = column.padding.iter().copied().cycle();
        // Padding consists of whole elements, so the position of each padding byte in the output determines its
        // position in the 16-byte pattern.
        let begin_of_pad = match column.pad {
            Pad::Head => 0,
            Pad::Tail => data.len(),
        };
        let phase = (out.len() + begin_of_pad) % 16;
        let pad: Vec<u8> = pad.skip(phase).take(missing).collect();
        match column.pad {
            Pad::Head => out.extend(pad.into_iter().chain(data)),
            Pad::Tail => out.extend(data.into_iter().chain(pad)),
        }
    }
    out
}

/// Returns a buffer of at least `bytes` bytes, aligned to 16.
fn aligned(bytes: usize, fill: impl Fn(u64) -> u8) -> Vec<u128> {
    let word = |word: usize| u128::from_le_bytes(std::array::from_fn(|byte| fill((word * 16 + byte) as u64)));
    (0..bytes.div_ceil(16)).map(word).collect()
}

#[derive(Clone, Debug)]
struct Case {
    step_bytes: u64,
    most_steps: u64,
    window: (i64, u64, Pad),
    padding: [u8; 16],
    convert: Option<Convert>,
}

const FLOATS: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

/// The types that kernels convert.
pub(crate) const NUMBERS: [DType; 13] = {
    use DType::{BFloat16, Bool, Float16, Float32, Float64, UInt8, UInt16, UInt32, UInt64};
    use DType::{Int8, Int16, Int32, Int64};
    [Bool, UInt8, UInt16, UInt32, UInt64, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64]
};

fn case() -> impl Strategy<Value = Case> {
    let window = (-40i64..40, 1u64..50, any::<bool>())
        .prop_map(|(offset, length, head)| (offset, length, if head { Pad::Head } else { Pad::Tail }));
    let from = prop_oneof![1 => Just(DType::UInt8), 4 => prop::sample::select(&NUMBERS[..])];
    let to = prop::sample::select(&FLOATS[..]);
    let scale = prop_oneof![Just(1.0f32), Just(1.0 / 255.0), Just(1e-9), Just(3e-7), Just(300.0), Just(0.0)];
    let conversion = (from, to, scale).prop_map(|(from, to, scale)| Convert { from, to, scale });
    let conversion = prop_oneof![1 => Just(None), 1 => conversion.prop_map(Some)];
    let sizes = prop_oneof![1u64..70, Just(4), Just(1), Just(512), Just(777)];
    (sizes, 1u64..60, window, any::<u64>(), conversion).prop_map(
        |(size, most_steps, window, pad, conversion)| {
            let step_bytes =
                conversion.map_or(size, |conversion| size * conversion.from.size_bytes().unwrap() as u64);
            // The size of a padding element divides the size of a step.
            let element = match conversion {
                Some(conversion) => conversion.to.size_bytes().unwrap() as u64,
                None => [8, 4, 2, 1].into_iter().find(|size| step_bytes % size == 0).unwrap(),
            };
            let pad = std::array::from_fn(|byte| pad.to_le_bytes()[byte % usize::try_from(element).unwrap()]);
            Case { step_bytes, most_steps, window, padding: pad, convert: conversion }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Defects 21 and 22 (unaligned loads, wrong windows): all step sizes, all windows, padding on both sides, all
    /// casts.
    #[test]
    fn kernels_collect_the_same_bytes_as_a_naive_loop(
        cases in prop::collection::vec(case(), 1..4),
        rows in prop::collection::vec((0u64..7, -3i64..70, 0.0f64..1.0), 1..6),
        copy_engine_from in prop_oneof![Just(u64::MAX), Just(0), Just(600)],
    ) {
        let Some((device, log)) = emulated() else { return Ok(()) };
        let least = cases.iter().map(|case| case.most_steps).min().unwrap_or(1);
        let indices: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let steps: Vec<i64> = rows.iter().map(|row| row.1).collect();
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let lengths: Vec<u64> = rows.iter().map(|row| (row.2 * (least + 1) as f64) as u64).collect();
        let rows = Rows { indices: &indices, steps: &steps, lengths: &lengths };
        let (mut plans, mut stores, mut outs) = (Vec::new(), Vec::new(), Vec::new());
        for (number, case) in (0u64..).zip(&cases) {
            let row_stride = (case.step_bytes * case.most_steps).next_multiple_of(16);
            let byte = |byte: u64| special(mixed(byte + number * 99));
            let store = aligned(usize::try_from(row_stride * 7).unwrap(), byte);
            let mut plan = ColumnPlan {
                source: store.as_ptr() as u64,
                store_rows: 7,
                row_stride,
                step_bytes: case.step_bytes,
                offset: case.window.0,
                length: case.window.1,
                pad: case.window.2,
                padding: case.padding,
                convert: case.convert,
                out: 0,
            };
            let out = aligned(usize::try_from(plan.out_row_bytes()).unwrap() * indices.len() + 64, |_| 0xee);
            plan.out = out.as_ptr() as u64;
            plans.push(plan);
            stores.push(store);
            outs.push(out);
        }
        let collector = Collector::new(&device).unwrap().with_copy_engine_from(copy_engine_from);
        for _ in 0..3 {
            // SAFETY: stores and outputs are valid and large enough, and this driver completes the work before it
            // returns.
            unsafe { collector.collect(&plans, rows, Stream(77)).unwrap() };
        }
        for ((plan, store), out) in plans.iter().zip(&stores).zip(&outs) {
            let expected = naive(plan, bytemuck::cast_slice(store), rows);
            let bytes: &[u8] = bytemuck::cast_slice(out);
            prop_assert_eq!(&bytes[..expected.len()], &expected[..], "{:?}", plan);
            prop_assert!(bytes[expected.len()..].iter().all(|byte| *byte == 0xee), "written beyond the end: {:?}", plan);
        }
        let log = log.lock().unwrap();
        let launches = log.iter().filter(|call| matches!(call, Call::Launch { kernel: "collect", .. })).count();
        prop_assert!(launches <= 3, "one launch for all columns of a collection");
    }
}

/// Rows with many pieces, long enough that warps repeat their loop and pieces begin at arbitrary offsets.
#[test]
fn long_rows_are_collected_in_pieces() {
    let Some((device, _)) = emulated() else { return };
    let store = aligned(3 * 60_000, |byte| mixed(byte).to_le_bytes()[0]);
    let to = |to, scale| Some(Convert { from: DType::UInt8, to, scale });
    for (step_bytes, conversion) in
        [(1, None), (1_001, None), (29, to(DType::Float16, 0.5)), (3, to(DType::Float32, 2.0))]
    {
        let length = 25_000 / step_bytes;
        let mut column = ColumnPlan {
            source: store.as_ptr() as u64,
            store_rows: 3,
            row_stride: 60_000,
            step_bytes,
            offset: 3,
            length,
            pad: Pad::Head,
            padding: [9; 16],
            convert: conversion,
            out: 0,
        };
        let rows = Rows { indices: &[2, 0], steps: &[0, 2], lengths: &[length + 5, length / 2] };
        let out = aligned(usize::try_from(column.out_row_bytes()).unwrap() * 2, |_| 0xee);
        column.out = out.as_ptr() as u64;
        let collector = Collector::new(&device).unwrap();
        // SAFETY: the store and the output are valid and large enough.
        unsafe { collector.collect(&[column], rows, device.stream()).unwrap() };
        let expected = naive(&column, bytemuck::cast_slice(&store), rows);
        let bytes: &[u8] = bytemuck::cast_slice(&out);
        assert!(bytes[..expected.len()] == expected[..], "steps of {step_bytes} bytes, {conversion:?}");
    }
}

/// Defect 22: addresses and sizes beyond 4 GiB reach the kernel untruncated, and the lists of a collection are not
/// overwritten while an earlier one may read them.
#[test]
fn large_stores_are_addressed_in_64_bits() {
    let (device, log) = recorded(Fault::None, None);
    let device = device.unwrap();
    let collector = Collector::new(&device).unwrap().with_blocks(24);
    let mut column = ColumnPlan {
        source: 0x7f00_1234_0000,
        store_rows: 1 << 20,
        row_stride: 1 << 23,
        step_bytes: 1 << 13,
        offset: -1_024,
        length: 1_024,
        pad: Pad::Head,
        padding: [0; 16],
        convert: None,
        out: 0x7e00_0000_0000,
    };
    let (indices, steps, lengths) = (vec![(1 << 20) - 1; 2_000], vec![1_024; 2_000], vec![1_024; 2_000]);
    let rows = Rows { indices: &indices, steps: &steps, lengths: &lengths };
    // SAFETY: the recording driver reads and writes nothing.
    unsafe { collector.collect(&[column], rows, Stream(5)).unwrap() };
    let calls = std::mem::take(&mut *log.lock().unwrap());
    let launch = calls.iter().position(|call| matches!(call, Call::Launch { .. })).unwrap();
    let Call::Launch { kernel, shape, stream, parameter } = &calls[launch] else { unreachable!() };
    assert_eq!((*kernel, shape.blocks, shape.threads, *stream), ("collect", 24, 1024, Stream(5)));
    let words: &[u64] =
        &parameter.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>();
    assert_eq!((words[1], words[5], words[6]), (1, 2_000, 2_000 * 1_024), "pieces of 16 GiB");
    let Call::Record(event, Stream(5)) = calls[launch + 1] else { panic!("{:?}", calls[launch + 1]) };
    for _ in 0..4 {
        // SAFETY: as above.
        unsafe { collector.collect(&[column], rows, Stream(6)).unwrap() };
    }
    let calls = std::mem::take(&mut *log.lock().unwrap());
    assert!(calls.contains(&Call::Finish(event)), "later collections look whether the first has passed");

    // The same collection by copy engine: one batch of copies, and no kernel launch if there is no padding.
    let collector = collector.with_copy_engine_from(1 << 20);
    // SAFETY: as above.
    unsafe { collector.collect(&[column], rows, Stream(6)).unwrap() };
    let calls = std::mem::take(&mut *log.lock().unwrap());
    let [Call::Copy(copies, Stream(6))] = &calls[..] else { panic!("{calls:?}") };
    let from = column.source + ((1 << 20) - 1) * (1 << 23);
    assert_eq!(copies.len(), 2_000);
    assert_eq!(copies[1_999], Copy { to: column.out + 1_999 * (1 << 23), from, bytes: 1 << 23 });

    // A copy from two registrations would be refused. The second row starts shortly before the end of the first one.
    let odd = ColumnPlan { row_stride: (1 << 23) - 1024, ..column };
    let row = MAX_REGISTRATION_BYTES / odd.row_stride;
    let before = MAX_REGISTRATION_BYTES - row * odd.row_stride;
    assert!((1..1 << 23).contains(&before));
    let both = Rows { indices: &[row - 1, row], steps: &[1_023; 2], lengths: &[1_023; 2] };
    let odd = ColumnPlan { offset: -1_023, length: 1_023, ..odd };
    // SAFETY: as above.
    unsafe { collector.collect(&[odd], both, Stream(6)).unwrap() };
    let calls = std::mem::take(&mut *log.lock().unwrap());
    let [Call::Copy(copies, Stream(6))] = &calls[..] else { panic!("{calls:?}") };
    let bytes = 1_023 << 13;
    let (from, to) = (odd.source + row * odd.row_stride, odd.out + bytes);
    let expected = [
        Copy { to: odd.out, from: from - odd.row_stride, bytes },
        Copy { to, from, bytes: before },
        Copy { to: to + before, from: from + before, bytes: bytes - before },
    ];
    assert_eq!(copies, &expected);

    column.row_stride = 24;
    // SAFETY: the call is refused before anything is done.
    let refused = unsafe { collector.collect(&[column], rows, Stream(6)) }.unwrap_err();
    assert!(refused.to_string().contains("multiples of 16"), "{refused}");
    let beyond = Rows { indices: &[1 << 20], steps: &[0], lengths: &[1] };
    column.row_stride = 1 << 23;
    // SAFETY: the call is refused before anything is done.
    let refused = unsafe { collector.collect(&[column], beyond, Stream(6)) }.unwrap_err();
    assert!(refused.to_string().contains("row 0 is index 1048576"), "{refused}");
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn memory_is_registered_in_pieces_and_unregistered_before_it_is_unmapped() {
    let (device, log) = recorded(Fault::None, None);
    let device = device.unwrap();
    log.lock().unwrap().clear();
    let (begin, bytes) = (1 << 45, 150 << 30);
    // SAFETY: the driver only records the call.
    let registration =
        unsafe { HostRegistration::new(&device, begin, bytes, Box::new(Mapping(log.clone()))) }.unwrap();
    assert_eq!(registration.on_device().0, begin);
    drop(registration);
    let pieces = [begin, begin + MAX_REGISTRATION_BYTES, begin + 2 * MAX_REGISTRATION_BYTES];
    let registered =
        pieces.map(|at| Call::Register { at, bytes: MAX_REGISTRATION_BYTES.min(begin + bytes - at) });
    let unregistered = pieces.map(Call::Unregister).into_iter().rev();
    let expected: Vec<Call> = registered.into_iter().chain(unregistered).chain([Call::Unmap]).collect();
    assert_eq!(*log.lock().unwrap(), expected);
    // SAFETY: refused.
    assert!(unsafe { HostRegistration::new(&device, begin, 0, Box::new(())) }.is_err());
}

#[test]
fn a_failed_registration_is_rolled_back_and_clears_its_error() {
    let begin = 1 << 45;
    let second = begin + MAX_REGISTRATION_BYTES;
    let (device, log) = recorded(Fault::Registration(second), None);
    let device = device.unwrap();
    log.lock().unwrap().clear();
    // SAFETY: the driver only records the call.
    let failed = unsafe { HostRegistration::new(&device, begin, 100 << 30, Box::new(Mapping(log.clone()))) };
    assert!(failed.unwrap_err().to_string().contains("registers no more"));
    let calls = log.lock().unwrap();
    assert_eq!(calls[2..], [Call::Recover, Call::Unregister(begin), Call::Unmap]);
}

#[test]
fn old_drivers_compile_kernels_once() {
    let folder = tempfile::tempdir().unwrap();
    let (first, log) = recorded(Fault::OldDriver, Some(folder.path()));
    drop(first.unwrap());
    let calls = log.lock().unwrap();
    assert!(calls.starts_with(&[Call::Load, Call::Compile, Call::Load]), "{calls:?}");
    let (second, log) = recorded(Fault::OldDriver, Some(folder.path()));
    drop(second.unwrap());
    let calls = log.lock().unwrap();
    assert!(calls.starts_with(&[Call::Load, Call::Load]) && !calls.contains(&Call::Compile), "{calls:?}");
    let (none, _) = recorded(Fault::OldDriverWithoutCompiler, None);
    let error = none.unwrap_err().to_string();
    assert!(error.contains("older than the PTX") && error.contains("NVRTC"), "{error}");
}

#[test]
fn without_a_gpu_the_reason_is_reported() {
    match Device::available() {
        Ok(()) => println!("there is a GPU: tests/gpu/device.rs uses it"),
        Err(error) => {
            assert!(error.to_string().starts_with("no GPU"), "{error}");
            assert_eq!(Device::open(0).unwrap_err().to_string(), error.to_string());
        }
    }
}
