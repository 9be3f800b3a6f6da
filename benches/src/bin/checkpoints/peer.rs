//! Compares with dm-reverb on the same content: dm-reverb's own checkpoint, and Relive's checkpoint of what dm-reverb
//! has written.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use relive_checkpoint::{LoadOptions, Store, load};
use relive_engine::Rules;

use crate::arguments::Arguments;
use crate::content::{ITEM_BYTES, rules, saving_to};
use crate::files::{self, Folder};
use crate::restore;
use relive_benches::Outcome;

/// dm-reverb takes minutes for a million items.
const MAX_ITEMS: u64 = 200_000;

pub(crate) fn measure(arguments: &Arguments, python: &Path) -> Outcome {
    let items = arguments.items().min(MAX_ITEMS);
    println!("\n# Beside dm-reverb, {items} items");
    println!("| round | dm-reverb writes | Relive writes | | dm-reverb loads | Relive loads | |");
    println!("|---|---|---|---|---|---|---|");
    for number in 1..=arguments.rounds {
        let theirs = Folder::new(arguments.folder.join("dm-reverb"))?;
        let peer = peer(python, theirs.path(), items)?;
        let (write, load) = ours(arguments, theirs.path(), items)?;
        println!(
            "| {number} | {:.2} s | {write:.2} s | {:.1} × | {:.2} s | {load:.2} s | {:.1} × |",
            peer.write,
            peer.write / write,
            peer.load,
            peer.load / load,
        );
    }
    Ok(())
}

struct Peer {
    write: f64,
    load: f64,
}

/// Makes dm-reverb's server write a checkpoint and load it.
fn peer(python: &Path, folder: &Path, items: u64) -> Outcome<Peer> {
    let mut command = Command::new(python);
    command.arg("benches/peers/checkpoints.py").arg(folder);
    command.arg(items.to_string()).arg(ITEM_BYTES.to_string());
    let output = command.env("TF_CPP_MIN_LOG_LEVEL", "3").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let results: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let number = |name: &str| -> Outcome<f64> {
        let errors = || String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(results.get(name).ok_or_else(errors)?.parse()?)
    };
    Ok(Peer { write: number("write")?, load: number("load")? })
}

/// Measures the seconds that Relive takes to write the content of dm-reverb's checkpoint, and to load it again.
fn ours(arguments: &Arguments, theirs: &Path, items: u64) -> Outcome<(f64, f64)> {
    let root = Folder::new(arguments.folder.join("peer"))?;
    let snapshot = load(&theirs.to_string_lossy(), &LoadOptions::new())?.snapshot;
    let store = Arc::new(Store::open(&root.path().to_string_lossy())?);
    let builder = saving_to(rules(items), Arc::clone(&store));
    let engine = builder.build_from(snapshot, Rules::Stored)?.engine;
    files::settle();
    let start = Instant::now();
    engine.checkpoint()?;
    let write = start.elapsed().as_secs_f64();
    drop((engine, store));
    let (load, loaded) = restore::measure(root.path())?;
    match loaded == items {
        true => Ok((write, load.as_secs_f64())),
        false => Err(format!("{loaded} items of {items} came back").into()),
    }
}
