//! Checks that a GPU computes the same bits as the CPU. Without a GPU, the tests print why they are skipped.

#![expect(unsafe_code, reason = "memory of the host that a GPU reads")]
#![expect(clippy::print_stdout, reason = "says why it does nothing")]

use crate::cuda::{KINDS, convert_everywhere, draw_everywhere};
use crate::support::numbers::{mixed, weight};
use relive_gpu::Pad;
use relive_gpu::cuda::{
    Collector, ColumnPlan, Device, DeviceBuffer, DeviceWeights, HostRegistration, Rows, SOURCES,
};
use relive_gpu::select::{Order, Pool, Selector, Weights, WeightsConfig};

fn device() -> Option<Device> {
    match Device::available() {
        Ok(()) => Some(Device::open(0).expect("there is a GPU")),
        Err(reason) => {
            println!("not tested: {reason}");
            None
        }
    }
}

#[test]
fn a_gpu_selects_the_same_rows_as_the_cpu() {
    let Some(device) = device() else { return };
    for (capacity, exponent) in [(300u64, 1.0), (1_000_003, 0.6), (20_000_000, 1.0)] {
        let config = WeightsConfig { exponent, ..WeightsConfig::new(capacity) };
        let all: Vec<f32> = (0..capacity).map(weight).collect();
        let inserted: Vec<u64> = (0..capacity).map(|index| mixed(index) % (capacity / 2)).collect();
        let mut host = Weights::new(config).unwrap();
        let mut other = DeviceWeights::new(&device, config).unwrap();
        host.load(&all).unwrap();
        other.load(&all).unwrap();
        let numbers = DeviceBuffer::new(&device, capacity * 8).unwrap();
        numbers.write(0, &inserted).unwrap();
        let changed: Vec<u64> = (0..50_000).map(|number| mixed(number * 7) % capacity).collect();
        let values: Vec<f32> = (0..50_000).map(|number| weight(number + capacity)).collect();
        host.update(&changed, &values).unwrap();
        other.update(&changed, &values).unwrap();
        assert!(other.weights().unwrap() == host.weights());
        let count = (capacity / 3).min(32_768);
        for selection in KINDS {
            let mut selectors = [Selector::new(capacity), Selector::new(capacity)];
            let here = Pool::with_inserted(&host, &inserted);
            let there = other.pool_with_inserted(&numbers);
            let here = selectors[0].select(&here, selection, count, Order::AsDrawn).unwrap();
            let there = selectors[1].select(&there, selection, count, Order::AsDrawn).unwrap();
            assert!(here == there, "{selection:?} of {capacity} with exponent {exponent}");
        }
    }
}

/// Tests the fallback for drivers that are too old for the shipped kernels.
#[test]
fn a_gpu_runs_kernels_compiled_on_this_machine() {
    let Some(device) = device() else { return };
    let Some(compiled) = device.driver().compile(SOURCES) else {
        println!("not tested: NVRTC was not found");
        return;
    };
    let module = device.driver().load(&compiled.unwrap()).unwrap();
    for kernel in ["collect", "select_draw", "select_finish"] {
        device.driver().function(module, kernel).unwrap();
    }
}

#[test]
fn a_gpu_keeps_its_draws() {
    let Some(device) = device() else { return };
    draw_everywhere(&device, 3_000_001, 1.0, 500_000);
    draw_everywhere(&device, 1_000_001, 0.6, 100_000);
}

#[test]
fn a_gpu_converts_values_to_the_same_bits() {
    let Some(device) = device() else { return };
    convert_everywhere(&device, 1 << 20);
}

#[test]
fn a_gpu_collects_rows_from_host_memory() {
    let Some(device) = device() else { return };
    let (store_rows, row_stride) = (64u64, 1u64 << 20);
    let words: Vec<u128> = (0..store_rows * row_stride / 16)
        .map(|word| u128::from(mixed(word)) << 64 | u128::from(mixed(!word)))
        .collect();
    let (address, bytes) = (words.as_ptr() as u64, store_rows * row_stride);
    let store: Vec<u8> = bytemuck::cast_slice(&words).to_vec();
    // SAFETY: the registration owns the memory, whose address does not change when the vector moves.
    let registration = unsafe { HostRegistration::new(&device, address, bytes, Box::new(words)) }.unwrap();
    for (step_bytes, length, copy_engine_from) in
        [(44u64, 500u64, u64::MAX), (1_024, 1_000, u64::MAX), (4_096, 250, 0)]
    {
        let out = DeviceBuffer::new(&device, step_bytes * length * 100).unwrap();
        let column = ColumnPlan {
            source: registration.on_device().0,
            store_rows,
            row_stride,
            step_bytes,
            offset: -3,
            length,
            pad: Pad::Tail,
            padding: [7; 16],
            convert: None,
            out: out.address().0,
        };
        let indices: Vec<u64> = (0..100).map(|row| mixed(row) % store_rows).collect();
        let (steps, lengths) = (vec![3; 100], vec![length - 2; 100]);
        let rows = Rows { indices: &indices, steps: &steps, lengths: &lengths };
        let collector = Collector::new(&device).unwrap().with_copy_engine_from(copy_engine_from);
        // SAFETY: the store and the output are valid and large enough.
        unsafe { collector.collect(&[column], rows, device.stream()).unwrap() };
        let size = |number: u64| usize::try_from(number).unwrap();
        let collected: Vec<u8> = out.read(0, size(out.bytes())).unwrap();
        let mut expected = Vec::new();
        for index in &indices {
            let begin = size(index * row_stride);
            expected.extend(&store[begin..begin + size((length - 2) * step_bytes)]);
            expected.resize(expected.len() + size(2 * step_bytes), 7);
        }
        assert!(collected == expected, "steps of {step_bytes} bytes");
    }
}
