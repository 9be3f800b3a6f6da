//! Loading in a process of its own, as after a restart: memory is fresh.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use relive_checkpoint::{LoadOptions, Store};
use relive_engine::Rules;

use crate::content::rules;
use relive_benches::Outcome;

const WORD: &str = "restore";

/// The folder, if that is what the program is asked to do.
pub(crate) fn asked_for(words: &[String]) -> Option<&Path> {
    match words {
        [word, folder] if word == WORD => Some(Path::new(folder)),
        _ => None,
    }
}

/// Makes an engine of the newest checkpoint, and prints how long that took, in seconds.
pub(crate) fn run(folder: &Path) -> Outcome {
    let start = Instant::now();
    let store = Store::open(&folder.to_string_lossy())?;
    let loaded = store.load_latest(&LoadOptions::new())?.ok_or("there is no checkpoint")?;
    let items: usize = loaded.snapshot.tables.iter().map(|table| table.items.len()).sum();
    let restored = rules(1).build_from(loaded.snapshot, Rules::Stored)?;
    println!("{} {items}", start.elapsed().as_secs_f64());
    // The process ends faster than its memory could be freed piece by piece.
    std::mem::forget((restored, store));
    Ok(())
}

/// Has another process do it; gives the time that it took and the number of items.
pub(crate) fn measure(folder: &Path) -> Outcome<(Duration, u64)> {
    let output = Command::new(std::env::current_exe()?).arg(WORD).arg(folder).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = || {
        let (seconds, items) = text.trim().split_once(' ')?;
        Some((Duration::from_secs_f64(seconds.parse().ok()?), items.parse().ok()?))
    };
    told().ok_or_else(|| format!("the process that restores says: {text}").into())
}
