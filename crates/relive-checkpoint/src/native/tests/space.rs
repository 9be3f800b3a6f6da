//! Tests how much data is written, and how much space is used.

use super::support::{assert_no_garbage, describe, later, load, save, snapshot, store};
use crate::simulated_disk::SimulatedDisk;

fn used(disk: &SimulatedDisk) -> usize {
    disk.files().values().map(Vec::len).sum()
}

#[test]
fn unchanged_chunks_are_not_rewritten() {
    let disk = SimulatedDisk::new();
    let store = store(&disk).unwrap();
    let first = snapshot(0..300);
    let whole = save(&store, &first).unwrap();
    let second = save(&store, &later(&first, |number| number > 2, 400..403)).unwrap();
    assert!(second * 4 < whole, "{second} bytes after {whole}");
    // The data is not written again after a restart either.
    drop(store);
    let store = super::support::store(&disk).unwrap();
    let loaded = load(&store).unwrap().snapshot;
    let again = save(&store, &loaded).unwrap();
    assert!(again * 4 < whole, "{again} bytes after {whole}");
    assert_eq!(describe(&load(&store).unwrap().snapshot), describe(&loaded));
}

#[test]
fn a_store_that_has_not_loaded_writes_everything() {
    let disk = SimulatedDisk::new();
    let first = snapshot(0..20);
    let whole = save(&store(&disk).unwrap(), &first).unwrap();
    let again = save(&store(&disk).unwrap(), &first).unwrap();
    assert!(again.abs_diff(whole) < 50, "{again} bytes after {whole}");
}

#[test]
fn disk_space_stays_bounded_for_any_eviction_order() {
    for oldest_first in [true, false] {
        let disk = SimulatedDisk::new();
        let store = store(&disk).unwrap().keep(1);
        let mut now = snapshot(0..60);
        let mut most = 0;
        let whole = save(&store, &now).unwrap();
        for round in 0..80_u64 {
            let leaves = |number: u64| {
                if oldest_first { number < 6 * (round + 1) } else { (number * 7 + round).is_multiple_of(10) }
            };
            let first = 1000 + 6 * round;
            let start = if oldest_first { 60 + 6 * round } else { first };
            now = later(&now, |number| !leaves(number), start..start + 6);
            save(&store, &now).unwrap();
            most = most.max(used(&disk));
        }
        assert_eq!(describe(&load(&store).unwrap().snapshot), describe(&now));
        assert_no_garbage(&disk);
        let files = disk.files().len();
        let limit = 3 * usize::try_from(whole).unwrap();
        assert!(
            most < limit && files < 70,
            "at most {most} bytes, {files} files at the end, {whole} bytes at first"
        );
    }
}

#[test]
fn foreign_files_are_kept() {
    let disk = SimulatedDisk::new();
    let store = store(&disk).unwrap().keep(1);
    save(&store, &snapshot(0..3)).unwrap();
    let foreign = [
        "notes.txt",
        "checkpoint-1.relive",
        ".x.tmp",
        "segments/readme",
        "segments/0.chunks",
        "segments/.a.tmp",
    ];
    for name in foreign {
        let path = std::path::Path::new("/store").join(name);
        crate::storage::disk::Disk::create_file(&disk, &path).unwrap();
    }
    for round in 0..3 {
        save(&store, &snapshot(round * 10..round * 10 + 3)).unwrap();
    }
    for name in foreign {
        assert!(disk.files().contains_key(&std::path::Path::new("/store").join(name)), "{name}");
    }
    assert_eq!(disk.files().keys().filter(|path| path.starts_with("/store/segments")).count(), 3 + 1);
}
