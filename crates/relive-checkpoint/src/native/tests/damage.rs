//! Tests files that were modified, truncated or lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_table::{CheckpointProgress, Snapshot};

use super::support::{describe, describe_item, later, load, load_with, save, snapshot, store};
use crate::simulated_disk::SimulatedDisk;
use crate::storage::LocalStorage;
use crate::{Catalog, ErrorKind, LoadOptions, Loaded};

/// Returns a disk with two checkpoints that share segments, and the contents of the newer one.
fn two() -> (SimulatedDisk, Snapshot) {
    let disk = SimulatedDisk::new();
    let store = store(&disk).unwrap();
    let first = snapshot(0..24);
    save(&store, &first).unwrap();
    let second = later(&first, |number| number > 2, 40..44);
    save(&store, &second).unwrap();
    (disk, second)
}

fn catalog(disk: &SimulatedDisk) -> Catalog {
    Catalog::on(Arc::new(LocalStorage::on(Arc::new(disk.clone()), "/store")))
}

fn items(snapshot: &Snapshot) -> BTreeSet<String> {
    let of = |table: &relive_table::TableSnapshot| {
        let name = table.config.name.clone();
        table.items.iter().map(move |item| format!("{name} {}", describe_item(item))).collect::<Vec<_>>()
    };
    snapshot.tables.iter().flat_map(of).collect()
}

/// The salvaged part is a subset of the whole, and the missing part is reported.
fn check_salvaged(salvaged: &Loaded, whole: &Snapshot, what: &str) {
    let (found, all) = (items(&salvaged.snapshot), items(whole));
    assert!(found.is_subset(&all), "{what}: something else was loaded");
    let lost: u64 = salvaged.losses.iter().map(|loss| loss.items).sum();
    assert_eq!(lost, (all.len() - found.len()) as u64, "{what}: {:#?}", salvaged.losses);
    for table in &salvaged.snapshot.tables {
        let counters = table.counters;
        assert_eq!(counters.inserts - counters.deletes, i64::try_from(table.items.len()).unwrap(), "{what}");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 20) % limit as u64).unwrap()
    }
}

/// Loads, verifies and salvages after a file was modified.
fn check_damaged(disk: &SimulatedDisk, path: &Path, what: &str, whole: &Snapshot, expected: &str) -> bool {
    let (store, strict) = (store(disk).unwrap(), LoadOptions::new().threads(1));
    let is_noticed = match load_with(&store, &strict) {
        Ok(loaded) => {
            let loaded = loaded.unwrap_or_else(|| panic!("{what}: nothing is there"));
            assert!(describe(&loaded.snapshot) == expected, "{what} goes unnoticed");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {text}");
            assert!(text.contains(&path.display().to_string()), "{what}: {text}");
            assert!(text.contains("at byte"), "{what}: {text}");
            true
        }
    };
    match load_with(&store, &strict.salvage(true)) {
        Ok(salvaged) => {
            let salvaged = salvaged.unwrap_or_else(|| panic!("{what}: nothing is there"));
            assert_eq!(salvaged.losses.is_empty(), !is_noticed, "{what}: {:#?}", salvaged.losses);
            check_salvaged(&salvaged, whole, what);
        }
        // Not even the names of the tables can be read.
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("truncated") || text.contains("the list of tables is missing"),
                "{what}: {text}"
            );
        }
    }
    is_noticed
}

#[test]
fn no_flipped_bit_changes_what_is_loaded() {
    let (disk, whole) = two();
    let expected = describe(&whole);
    let files: Vec<(PathBuf, usize)> =
        disk.files().into_iter().map(|(path, bytes)| (path, bytes.len())).collect();
    let newest = Path::new("/store/checkpoint-0000000002.relive");
    let mut random = Random(5);
    let (mut noticed, flips) = (0, 3000);
    for _ in 0..flips {
        let (path, size) = &files[random.below(files.len())];
        let bit = random.below(size * 8);
        let flipped = disk.copy();
        flipped.change(path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let what = format!("bit {bit} of {}", path.display());
        let is_noticed = check_damaged(&flipped, path, &what, &whole, &expected);
        noticed += usize::from(is_noticed);
        assert!(is_noticed || path != newest, "{what} goes unnoticed, though all of the file counts");
        let report = catalog(&flipped).verify(&CheckpointProgress::default()).unwrap();
        let is_elsewhere = path.ends_with("checkpoint-0000000001.relive");
        assert_eq!(report.is_whole(), is_elsewhere, "{what}: verified as {:?}", report.losses);
    }
    assert!(noticed * 2 > flips, "{noticed} of {flips} flips were noticed");
}

#[test]
fn every_truncation_is_detected() {
    let (disk, whole) = two();
    let expected = describe(&whole);
    for (path, bytes) in disk.files() {
        for length in (0..bytes.len()).step_by(37).chain(bytes.len().saturating_sub(30)..bytes.len()) {
            let cut = disk.copy();
            cut.change(&path, |bytes| bytes.truncate(length));
            check_damaged(
                &cut,
                &path,
                &format!("{} cut to {length} bytes", path.display()),
                &whole,
                &expected,
            );
        }
    }
}

#[test]
fn trailing_bytes_are_detected_where_they_matter() {
    let (disk, whole) = two();
    let path = Path::new("/store/checkpoint-0000000002.relive");
    let longer = disk.copy();
    longer.change(path, |bytes| bytes.push(0));
    assert!(check_damaged(&longer, path, "a byte too many", &whole, &describe(&whole)));
}

#[test]
fn lost_and_swapped_segments_are_detected() {
    let (disk, whole) = two();
    let files = disk.files();
    let segments: Vec<&PathBuf> = files.keys().filter(|path| path.starts_with("/store/segments")).collect();
    for path in &segments {
        let lost = disk.copy();
        crate::storage::disk::Disk::remove_file(&lost, path).unwrap();
        check_damaged(&lost, path, &format!("{} lost", path.display()), &whole, &describe(&whole));
        let swapped = disk.copy();
        let other = segments.iter().find(|other| other != &path).unwrap();
        swapped.change(path, |bytes| bytes.clone_from(&files[*other]));
        check_damaged(&swapped, path, &format!("{} replaced", path.display()), &whole, &describe(&whole));
    }
}

#[test]
fn an_error_names_file_offset_and_table() {
    let (disk, _) = two();
    let newest = Path::new("/store/checkpoint-0000000002.relive");
    let head = disk.files()[newest].windows(8).position(|bytes| bytes == b"BLCK\x03\0\0\0").unwrap();
    disk.change(newest, |bytes| bytes[head + 45] ^= 1);
    let error = load_with(&store(&disk).unwrap(), &LoadOptions::new()).unwrap_err();
    let expected = format!(
        "/store/checkpoint-0000000002.relive, at byte {head}, table `whole`: the content of the block has a wrong checksum"
    );
    assert_eq!(error.to_string(), expected);
    let (disk, _) = two();
    let (path, _) = disk.files().into_iter().find(|(path, _)| path.starts_with("/store/segments")).unwrap();
    disk.change(&path, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let error = load_with(&store(&disk).unwrap(), &LoadOptions::new()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}, at byte ", path.display())), "{error}");
    assert!(error.contains(", table `whole`: the record has a wrong checksum"), "{error}");
}

#[test]
fn an_older_checkpoint_loads_once_the_newest_is_removed() {
    let (disk, _) = two();
    let newest = Path::new("/store/checkpoint-0000000002.relive");
    disk.change(newest, |bytes| bytes.truncate(100));
    let store = store(&disk).unwrap();
    assert!(load_with(&store, &LoadOptions::new()).is_err());
    // The references of the damaged checkpoint are unknown, so no file is removed while it exists.
    let before = disk.files().len();
    save(&store, &snapshot(60..61)).unwrap();
    assert_eq!(disk.files().len(), before + 2);
    crate::storage::disk::Disk::remove_file(&disk, newest).unwrap();
    crate::storage::disk::Disk::remove_file(&disk, Path::new("/store/checkpoint-0000000003.relive")).unwrap();
    assert_eq!(describe(&load(&store).unwrap().snapshot), describe(&snapshot(0..24)));
}

#[test]
fn a_newer_version_is_distinguished_from_damage() {
    let (disk, _) = two();
    disk.change(Path::new("/store/checkpoint-0000000002.relive"), |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..12]).to_le_bytes();
        bytes[12..16].copy_from_slice(&crc);
    });
    let error = load_with(&store(&disk).unwrap(), &LoadOptions::new().salvage(true)).unwrap_err();
    assert!(error.to_string().contains("its version is 2, but this Relive reads version 1"), "{error}");
}
