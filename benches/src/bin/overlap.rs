//! Measures concurrent sampling and learning, as in IMPALA: two shards sample fragments in threads, and a learner takes
//! a given time for each fragment.
//!
//! ```text
//! cargo run --release -p relive-benches --bin overlap
//! ```
//!
//! Both only sleep, so that the figures show the overhead of the dataflow, regardless of the machine's load.

#![expect(clippy::print_stdout, reason = "a program that reports")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use relive_flow::{Async, Executor, Flow, ParFlow, Resubmit, Result};

const SHARDS: u32 = 2;
const FRAGMENTS: usize = 200;

/// How long a shard takes for a fragment.
const SAMPLING: Duration = Duration::from_millis(10);

fn fragments(sampling: Duration) -> Flow<u64> {
    let fragment = move |made: &mut u64| {
        sleep(sampling);
        *made += 1;
        Some(*made)
    };
    let shards = ParFlow::from_states(&Executor::Threads, SHARDS, |_| 0, fragment);
    shards.gather_async(Async { depth: 2, resubmit: Resubmit::Before })
}

/// Returns the number of fragments per second.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rate(sampling: Duration, learning: Duration) -> Result<f64> {
    let mut learnt = fragments(sampling).for_each(move |fragment| {
        if !learning.is_zero() {
            sleep(learning);
        }
        fragment
    });
    learnt.next().transpose()?;
    let since = Instant::now();
    for _ in 0..FRAGMENTS {
        learnt.next().transpose()?;
    }
    Ok(FRAGMENTS as f64 / since.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let sampler = rate(SAMPLING, Duration::ZERO)?;
    println!(
        "| learner | sampler alone | learner alone | side by side | of the slower |\n|---|---|---|---|---|"
    );
    for milliseconds in [0, 1, 2, 5, 10, 20, 50] {
        let learning = Duration::from_millis(milliseconds);
        let (alone, both) = (rate(Duration::ZERO, learning)?, rate(SAMPLING, learning)?);
        let share = both / sampler.min(alone);
        println!("| {milliseconds} ms | {sampler:.0}/s | {alone:.0}/s | {both:.0}/s | {share:.2} |");
    }
    Ok(())
}
