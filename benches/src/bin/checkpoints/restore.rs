//! Loads a checkpoint in a separate process, so that memory is fresh, as after a restart.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use relive_checkpoint::{LoadOptions, Store};
use relive_engine::Rules;

use crate::content::rules;
use relive_benches::Outcome;

const WORD: &str = "restore";

/// Returns the folder to load, if the arguments request it.
pub(crate) fn asked_for(words: &[String]) -> Option<&Path> {
    match words {
        [word, folder] if word == WORD => Some(Path::new(folder)),
        _ => None,
    }
}

/// Restores an engine from the newest checkpoint, and prints how many seconds this took.
pub(crate) fn run(folder: &Path) -> Outcome {
    let start = Instant::now();
    let store = Store::open(&folder.to_string_lossy())?;
    let loaded = store.load_latest(&LoadOptions::new())?.ok_or("there is no checkpoint")?;
    let items: usize = loaded.snapshot.tables.iter().map(|table| table.items.len()).sum();
    let restored = rules(1).build_from(loaded.snapshot, Rules::Stored)?;
    println!("{} {items}", start.elapsed().as_secs_f64());
    // Ending the process is faster than freeing its memory piece by piece.
    std::mem::forget((restored, store));
    Ok(())
}

/// Runs the load in another process; returns its time and the number of items.
pub(crate) fn measure(folder: &Path) -> Outcome<(Duration, u64)> {
    let output = Command::new(std::env::current_exe()?).arg(WORD).arg(folder).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let parsed = || {
        let (seconds, items) = text.trim().split_once(' ')?;
        Some((Duration::from_secs_f64(seconds.parse().ok()?), items.parse().ok()?))
    };
    parsed().ok_or_else(|| format!("the process that restores says: {text}").into())
}
