//! Tests what happens if a server replaces a checkpoint between its choice and its reading.

#![expect(clippy::unwrap_used, reason = "a test all over")]

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use relive_checkpoint::{LoadOptions, Loaded, Report, Root, Store, list, load, verify};
use relive_table::{CheckpointProgress, Snapshot, TableConfig};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::{Folder, chunk, snapshot, table, trajectory};

/// Returns a table of this many items with one chunk each.
fn counted(items: u16) -> Snapshot {
    let items = (0..items).map(|number| trajectory(&[chunk(number.into(), number.into(), 3)]));
    snapshot(vec![table(TableConfig::new("counted"), items)])
}

/// Calls `act` on the path of a root with a checkpoint of 3 items, which a server replaces by one of 5 items as soon as
/// `act` has chosen it. If `keeps_file` is true, only the chunks of the former are gone when `act` reads it.
fn while_replaced<T>(keeps_file: bool, act: impl FnOnce(&str) -> T) -> T {
    let root = Folder::new();
    let text = root.to_str().unwrap();
    let store = Store::open(text).unwrap().keep(1);
    let first = store.save(counted(3), &CheckpointProgress::default()).unwrap().location;
    // The server ends with its second checkpoint.
    let replace = move || {
        let file = fs::read(&first).unwrap();
        store.save(counted(5), &CheckpointProgress::default()).unwrap();
        if keeps_file {
            fs::write(&first, file).unwrap();
        }
    };
    while_listed(&root, || act(text), replace)
}

/// Calls `act`. The first list of the root's checkpoints waits until it has found those in Relive's format, and until
/// `change` has then returned.
fn while_listed<T>(root: &Path, act: impl FnOnce() -> T, change: impl FnOnce() + Send) -> T {
    // The list reads this file of an older checkpoint in dm-reverb's format last. As a pipe, it waits for its writer.
    let older = root.join("2020-01-01T00:00:00+00:00");
    fs::create_dir(&older).unwrap();
    fs::write(older.join("DONE"), "").unwrap();
    let pipe = older.join("tables.tfrecord");
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _writer = OpenOptions::new().write(true).open(pipe).unwrap();
            change();
            fs::remove_dir_all(older).unwrap();
        });
        act()
    })
}

fn items(loaded: &Loaded) -> usize {
    assert_eq!(loaded.losses, []);
    loaded.snapshot.tables[0].items.len()
}

#[test]
fn a_replaced_checkpoint_is_loaded_from_its_successor() {
    for keeps_file in [false, true] {
        let options = LoadOptions::new().salvage(keeps_file);
        let named = while_replaced(keeps_file, |root| load(root, &options).unwrap());
        assert_eq!(items(&named), 5);
        let named = while_replaced(keeps_file, |root| Root::new(root).load(root, &options).unwrap());
        assert_eq!(items(&named), 5);
        let newest = while_replaced(keeps_file, |root| Root::new(root).load_latest(&options).unwrap());
        assert_eq!(items(&newest.unwrap()), 5);
        let empty = Folder::new();
        let other = Root::new(empty.join("other").to_str().unwrap());
        other.lock().unwrap();
        let named = while_replaced(keeps_file, |root| other.load(root, &options).unwrap());
        assert_eq!(items(&named), 5);
        let server = |fallback: &str| Root::new(empty.to_str().unwrap()).fallback(fallback);
        let fallback = while_replaced(keeps_file, |root| server(root).load_latest(&options).unwrap());
        assert_eq!(items(&fallback.unwrap()), 5);
    }
}

#[test]
fn a_fallback_is_loaded_from_the_successor_of_its_only_checkpoint() {
    let (root, empty) = (Folder::new(), Folder::new());
    let store = Store::open(root.to_str().unwrap()).unwrap();
    let server = Root::new(empty.to_str().unwrap()).fallback(root.to_str().unwrap());
    let load = || server.load_latest(&LoadOptions::new()).unwrap();
    let replace = || drop(store.save(counted(5), &CheckpointProgress::default()).unwrap());
    assert_eq!(items(&while_listed(&root, load, replace).unwrap()), 5);
}

#[test]
fn older_checkpoints_are_removed_after_a_replaced_one_was_salvaged() {
    let left = while_replaced(true, |place| {
        let root = Root::new(place).keep(1);
        let loaded = root.load_latest(&LoadOptions::new().salvage(true)).unwrap().unwrap();
        root.save(loaded.snapshot, &CheckpointProgress::default()).unwrap();
        list(place).unwrap().len()
    });
    assert_eq!(left, 1);
}

#[test]
fn a_replaced_checkpoint_is_not_reported_as_damaged() {
    for keeps_file in [false, true] {
        let report: Report = while_replaced(keeps_file, |root| verify(root, &Arc::default()).unwrap());
        assert_eq!((report.items, report.losses), (5, Vec::new()));
    }
}
