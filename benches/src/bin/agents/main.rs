//! Trains every agent on a task that it must learn, with several seeds, and checks the figures promised in
//! docs/benchmarks.md.
//!
//! ```text
//! cargo xtask bench --agents
//! cargo xtask bench --agents --only r2d2 --seeds 3
//! ```
//!
//! Runs are concurrent, one for each processor, so the steps per second are those of a busy machine; returns do not
//! depend on this. With `--one-at-a-time`, runs are sequential.

#![expect(clippy::print_stdout, reason = "a program that reports")]

mod rows;
mod run;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

use clap::Parser;

use rows::{ROWS, Row};
use run::{Figures, trained};

#[derive(Parser)]
#[command(about = "Every agent on a task that it must learn, with several seeds")]
struct Options {
    /// Run only rows of this agent or environment; repeatable
    #[arg(long)]
    only: Vec<String>,
    /// The number of seeds, counted from 1
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Execute runs one after the other
    #[arg(long)]
    one_at_a_time: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let wanted = |row: &&Row| {
        options.only.is_empty()
            || options.only.iter().any(|only| [row.agent, row.environment].contains(&only.as_str()))
    };
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    println!("| Agent, task | At least | Seeds 1 to {} | Steps/s | |", options.seeds);
    println!("|---|---|---|---|---|");
    let mut missed = 0;
    for row in rows {
        let found = side_by_side(row, &options);
        let (figures, failed): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
        let figures: Vec<Figures> = figures.into_iter().flatten().collect();
        let holds = failed.is_empty() && figures.iter().all(|figures| row.holds(figures.result));
        missed += usize::from(!holds);
        println!("{}", describe(row, &figures, holds));
        failed.into_iter().filter_map(Result::err).for_each(|error| println!("| | {error} | | | |"));
    }
    println!("\n{missed} missed");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the results of the runs of all seeds, in the order of the seeds.
fn side_by_side(row: &Row, options: &Options) -> Vec<Result<Figures, String>> {
    let threads = available_parallelism().map_or(1, usize::from) / row.actors.max(1);
    let threads = if options.one_at_a_time { 1 } else { threads.max(1) };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(seed) = (1..=options.seeds).nth(number) else { return };
                    let result = trained(row, seed).map_err(|error| format!("seed {seed}: {error}"));
                    // No code panics while it holds the lock.
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, result));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(seed, _)| *seed);
    found.into_iter().map(|(_, result)| result).collect()
}

fn describe(row: &Row, figures: &[Figures], holds: bool) -> String {
    let results: Vec<String> = figures.iter().map(|figures| format!("{:.2}", figures.result)).collect();
    let mut speeds: Vec<f64> = figures.iter().map(|figures| figures.env_steps_per_s).collect();
    speeds.sort_by(f64::total_cmp);
    let median = speeds.get(speeds.len() / 2).copied().unwrap_or(0.0);
    let (name, goal, mark) = (row.name(), row.goal(), if holds { "" } else { "missed" });
    format!("| {name} | {goal} | {} | {median:.0} | {mark} |", results.join(", "))
}
