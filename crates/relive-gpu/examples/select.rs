//! Measures selection on the CPU, and on the GPU if there is one: `select INDICES COUNT` prints one line of JSON per
//! operation. With `gpu` as third argument, it skips the CPU.
//!
//! `benches/gpu/selection.py` compares it with NumPy, PyTorch and other buffers.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its rows are the result")]

use std::time::{Duration, Instant};

use relive_gpu::Result;
use relive_gpu::cuda::{Device, DeviceBuffer, DeviceDraws, DeviceWeights};
use relive_gpu::select::{Order, Pool, Selection, Selector, Weights, WeightsConfig};

/// For how long runs are repeated; the fastest one is reported, because interference can only slow a run down.
const TIME: Duration = Duration::from_secs(1);

/// Where weights are.
enum Side {
    Processor { weights: Weights, inserted: Vec<u64> },
    Gpu { device: Device, weights: DeviceWeights, inserted: DeviceBuffer },
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Processor { .. } => "relive",
            Self::Gpu { .. } => "GPU",
        }
    }

    fn pool(&self) -> Pool<'_> {
        match self {
            Self::Processor { weights, inserted } => Pool::with_inserted(weights, inserted),
            Self::Gpu { weights, inserted, .. } => weights.pool_with_inserted(inserted),
        }
    }

    fn load(&mut self, all: &[f32]) -> Result<()> {
        match self {
            Self::Processor { weights, .. } => weights.load(all),
            Self::Gpu { weights, .. } => weights.load(all),
        }
    }

    fn update(&mut self, indices: &[u64], values: &[f32]) -> Result<()> {
        match self {
            Self::Processor { weights, .. } => weights.update(indices, values),
            Self::Gpu { weights, .. } => weights.update(indices, values),
        }
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let indices: u64 = arguments.next().unwrap_or(10_000_000);
    let count: u64 = arguments.next().unwrap_or(32_768);
    let with_processor = std::env::args().nth(3).is_none_or(|which| which != "gpu");
    for exponent in [1.0, 0.6] {
        let config = WeightsConfig { exponent, ..WeightsConfig::new(indices) };
        let inserted: Vec<u64> = (0..indices).map(mixed).collect();
        if with_processor {
            let side = Side::Processor { weights: Weights::new(config)?, inserted: inserted.clone() };
            measure(side, config, count)?;
        }
        if let Err(reason) = Device::available() {
            eprintln!("the GPU is not measured: {reason}");
            continue;
        }
        let device = Device::open(0)?;
        let numbers = DeviceBuffer::new(&device, indices * 8)?;
        numbers.write(0, &inserted)?;
        let weights = DeviceWeights::new(&device, config)?;
        measure(Side::Gpu { device, weights, inserted: numbers }, config, count)?;
    }
    Ok(())
}

fn measure(mut side: Side, config: WeightsConfig, count: u64) -> Result<()> {
    let WeightsConfig { capacity: indices, exponent, .. } = config;
    let who = side.name();
    let report = |what: &str, count: u64, seconds: f64| {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = count as f64 / seconds / 1e6;
        let ms = seconds * 1e3;
        println!(
            "{{\"who\": \"{who}\", \"what\": \"{what}, exponent {exponent}\", \"indices\": {indices}, \
             \"count\": {count}, \"ms\": {ms:.3}, \"millions_per_s\": {rate:.2}}}"
        );
    };
    let all: Vec<f32> =
        (0..indices).map(|index| 0.1 + f32::from(mixed(index).to_le_bytes()[0]) / 64.0).collect();
    report("load", indices, best(|| side.load(&all))?);
    let mut selector = Selector::new(1);
    let prioritized = Selection::Prioritized { beta: 0.4, stratified: true };
    let drawn_with_replacement =
        [Selection::Uniform, Selection::Weighted, Selection::Stratified, prioritized];
    let once = [Selection::TopK, Selection::Fifo, Selection::Lifo, Selection::WithoutReplacement];
    for selection in drawn_with_replacement.into_iter().chain(once) {
        let seconds = best(|| selector.select(&side.pool(), selection, count, Order::ByIndex))?;
        report(&format!("{selection:?}"), count, seconds);
    }
    if let Side::Gpu { weights, device, .. } = &side {
        let mut drawn = DeviceDraws::new(device, count)?;
        for selection in drawn_with_replacement {
            let seconds = best(|| weights.draw(&mut selector, selection, count, &mut drawn))?;
            report(&format!("{selection:?}, kept on the device"), count, seconds);
        }
    }
    let changed: Vec<u64> = (0..count).map(|number| mixed(number + 77) % indices).collect();
    let rounds: [Vec<f32>; 2] = [0, 0xff]
        .map(|round: u8| changed.iter().map(|index| f32::from(index.to_le_bytes()[1] ^ round)).collect());
    let mut round = 0;
    let seconds = best(|| {
        round += 1;
        side.update(&changed, &rounds[round % 2])
    })?;
    report("update", count, seconds);
    Ok(())
}

fn best<T>(mut work: impl FnMut() -> Result<T>) -> Result<f64> {
    let mut least = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        let result = work()?;
        least = least.min(start.elapsed().as_secs_f64());
        drop(result);
    }
    Ok(least)
}

/// Scrambles a number (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
