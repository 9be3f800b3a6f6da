//! Measures selection on this machine's processors: `select INDICES COUNT`, one row of JSON for each operation.
//!
//! `benches/gpu/select.py` runs it beside numpy, PyTorch and other buffers.

#![expect(clippy::print_stdout, reason = "its rows are the result")]

use std::time::{Duration, Instant};

use relive_gpu::Result;
use relive_gpu::select::{Order, Pool, Selection, Selector, Weights, WeightsConfig};

/// The best of the runs in this time is reported: others disturb, nobody helps.
const TIME: Duration = Duration::from_millis(1_500);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let indices: u64 = arguments.next().unwrap_or(10_000_000);
    let count: u64 = arguments.next().unwrap_or(32_768);
    let all: Vec<f32> =
        (0..indices).map(|index| 0.1 + f32::from(mixed(index).to_le_bytes()[0]) / 64.0).collect();
    let inserted: Vec<u64> = (0..indices).map(mixed).collect();
    for exponent in [1.0, 0.6] {
        let mut weights = Weights::new(WeightsConfig { exponent, ..WeightsConfig::new(indices) })?;
        let load = best(|| weights.load(&all))?;
        row(&format!("load, exponent {exponent}"), indices, indices, load);
        measure(&mut weights, &inserted, exponent, count)?;
    }
    Ok(())
}

fn measure(weights: &mut Weights, inserted: &[u64], exponent: f32, count: u64) -> Result<()> {
    let indices = inserted.len() as u64;
    let mut selector = Selector::new(1);
    let prioritized = Selection::Prioritized { beta: 0.4, stratified: true };
    let drawn = [Selection::Uniform, Selection::Weighted, Selection::Stratified, prioritized];
    let once = [Selection::TopK, Selection::Fifo, Selection::Lifo, Selection::WithoutReplacement];
    for selection in drawn.into_iter().chain(once) {
        let pool = Pool::with_inserted(weights, inserted);
        let seconds = best(|| selector.select(&pool, selection, count, Order::ByIndex))?;
        row(&format!("{selection:?}, exponent {exponent}"), indices, count, seconds);
    }
    let changed: Vec<u64> = (0..count).map(|number| mixed(number + 77) % indices).collect();
    let mut round: u8 = 0;
    let seconds = best(|| {
        round = round.wrapping_add(1);
        let values: Vec<f32> =
            changed.iter().map(|index| f32::from((index.to_le_bytes()[1]) ^ round)).collect();
        weights.update(&changed, &values)
    })?;
    row(&format!("update, exponent {exponent}"), indices, count, seconds);
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

fn row(what: &str, indices: u64, count: u64, seconds: f64) {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = count as f64 / seconds / 1e6;
    println!(
        "{{\"who\": \"relive\", \"what\": \"{what}\", \"indices\": {indices}, \"count\": {count}, \"ms\": {:.3}, \
         \"millions_per_s\": {rate:.2}}}",
        seconds * 1e3
    );
}

/// A number without order from a number (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
