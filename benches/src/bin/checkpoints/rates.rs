//! Measures how fast a checkpoint is written and restored, compared with plain copies of its files, and how much a
//! second checkpoint writes.

use std::sync::Arc;
use std::time::Instant;

use relive_checkpoint::Store;
use relive_engine::Engine;

use crate::arguments::Arguments;
use crate::content::{Items, full, rules, saving_to};
use crate::files::{self, Folder};
use crate::restore;
use relive_benches::Outcome;

/// Rates of one round, in bytes per nanosecond.
#[derive(Clone, Copy, Default)]
struct Round {
    write: f64,
    copy_synced: f64,
    copy: f64,
    copy_cold: f64,
    restore: f64,
    restore_cold: f64,
}

pub(crate) fn measure(arguments: &Arguments) -> Outcome {
    // This is halved, because the table, its checkpoint, the copy and a restored table exist at the same time.
    let items = arguments.items() / 2;
    println!("\n# Rates, {items} items");
    let mut rounds = Vec::new();
    for number in 1..=arguments.rounds {
        let root = Folder::new(arguments.folder.join("rates"))?;
        let store = Arc::new(Store::open(&root.path().to_string_lossy())?);
        let engine = full(saving_to(rules(items), Arc::clone(&store)), items)?;
        files::settle();
        let start = Instant::now();
        let first = engine.checkpoint()?;
        let write = rate(first.written_bytes, start);
        second(&engine, items, first.written_bytes)?;
        drop((engine, store));
        let round = Round { write, ..beside_copies(arguments, &root, number)? };
        round.print(number);
        rounds.push(round);
    }
    summarize(&rounds);
    Ok(())
}

fn rate(bytes: u64, since: Instant) -> f64 {
    bytes as f64 / 1e9 / since.elapsed().as_secs_f64()
}

/// Writes a second checkpoint after one percent of the items have been replaced.
fn second(engine: &Engine, items: u64, first_bytes: u64) -> Outcome {
    Items::new(1).insert(engine, items / 100)?;
    let start = Instant::now();
    let second = engine.checkpoint()?;
    println!(
        "second checkpoint with 1 % new items: {:.1} MB in {:.2} s, {:.2} % of the first",
        second.written_bytes as f64 / 1e6,
        start.elapsed().as_secs_f64(),
        100.0 * second.written_bytes as f64 / first_bytes as f64,
    );
    Ok(())
}

/// Restores and copies in alternating order, since memory that was just released is faster to allocate than memory that
/// was unused for a while.
fn beside_copies(arguments: &Arguments, root: &Folder, number: usize) -> Outcome<Round> {
    let bytes = files::size_bytes(root.path())? as f64 / 1e9;
    let copied = |sync: bool, warm: bool| -> Outcome<f64> {
        let copy = Folder::new(arguments.folder.join("copy"))?;
        prepare(root, warm)?;
        Ok(bytes / files::copy(root.path(), copy.path(), sync)?.as_secs_f64())
    };
    let restored = |warm: bool| -> Outcome<f64> {
        prepare(root, warm)?;
        Ok(bytes / restore::measure(root.path())?.0.as_secs_f64())
    };
    let mut round = Round { copy_synced: copied(true, true)?, ..Round::default() };
    for step in 0..2 {
        if (number + step).is_multiple_of(2) {
            (round.copy, round.copy_cold) = (copied(false, true)?, copied(false, false)?);
        } else {
            (round.restore, round.restore_cold) = (restored(true)?, restored(false)?);
        }
    }
    Ok(round)
}

/// Waits until all writes are complete, and brings the files into the page cache or removes them from it.
fn prepare(root: &Folder, warm: bool) -> Outcome {
    files::settle();
    match warm {
        true => files::warm(root.path())?,
        false => files::forget(root.path())?,
    }
    Ok(())
}

impl Round {
    fn print(&self, number: usize) {
        let Self { write, copy_synced, copy, copy_cold, restore, restore_cold } = self;
        println!("round {number}, GB/s: checkpoint {write:.3}, copy and sync {copy_synced:.3}");
        println!(
            "    restore {restore:.3}, copy {copy:.3}; from the disk: {restore_cold:.3}, {copy_cold:.3}"
        );
    }
}

fn summarize(rounds: &[Round]) {
    let median = |ratio: fn(&Round) -> f64| {
        let mut ratios: Vec<f64> = rounds.iter().map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN) * 100.0
    };
    let write = median(|round| round.write / round.copy_synced);
    let unsynced = median(|round| round.write / round.copy);
    println!("medians: checkpoint {write:.0} % of a copy that is synced, {unsynced:.0} % of one that is not");
    let warm = median(|round| round.restore / round.copy);
    let cold = median(|round| round.restore_cold / round.copy_cold);
    println!("medians: restore {warm:.0} % of a copy, from the disk {cold:.0} %");
}
