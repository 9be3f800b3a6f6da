//! Tests files that have correct checksums but contents that no server writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_table::CheckpointProgress;

use super::support::{load_with, save, snapshot, store};
use crate::manifest::forge;
use crate::simulated_disk::SimulatedDisk;
use crate::storage::LocalStorage;
use crate::{Catalog, LoadOptions};

const FILE: &str = "/store/checkpoint-0000000001.relive";

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    /// Modifies bytes, at random or to extreme values, or changes the length.
    fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let (at, value) = (self.below(bytes.len()), self.next().to_le_bytes()[0]);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), value),
                2 => bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
                3 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = value),
            }
        }
    }
}

#[test]
fn arbitrary_block_contents_never_panic() {
    let disk = SimulatedDisk::new();
    save(&store(&disk).unwrap(), &snapshot(0..12)).unwrap();
    let whole = disk.files()[Path::new(FILE)].clone();
    let mut random = Random(11);
    let mut refused = 0;
    for round in 0..3000 {
        let blocks = forge::count(&whole);
        let forged = forge::with_block(&whole, random.below(blocks), |content| random.corrupt(content));
        let corrupted = disk.copy();
        corrupted.change(Path::new(FILE), |bytes| bytes.clone_from(&forged));
        let store = store(&corrupted).unwrap();
        // Any result is allowed, except a panic or an allocation of memory for data that is only declared.
        let strict = load_with(&store, &LoadOptions::new().threads(1));
        let salvaged = load_with(&store, &LoadOptions::new().threads(1).salvage(true));
        if let (Err(strict), Ok(Some(salvaged))) = (&strict, &salvaged) {
            assert!(!salvaged.losses.is_empty(), "round {round}: {strict}");
        }
        if let (Ok(_), Ok(Some(salvaged))) = (&strict, &salvaged) {
            assert_eq!(salvaged.losses, [], "round {round}");
        }
        refused += usize::from(strict.is_err());
    }
    assert!(refused > 1500, "{refused} were refused");
}

#[test]
fn arbitrary_record_contents_never_panic() {
    let disk = SimulatedDisk::new();
    save(&store(&disk).unwrap(), &snapshot(0..3)).unwrap();
    let (segment, bytes): (PathBuf, Vec<u8>) =
        disk.files().into_iter().find(|(path, _)| path.starts_with("/store/segments")).unwrap();
    let mut random = Random(12);
    for _ in 0..2000 {
        let mut corrupted = bytes.clone();
        // Headers are at the start of each record. The record's length does not change, so that the checkpoint can be
        // forged to match.
        let at = 32 + 8 + random.below(44);
        corrupted[at] = random.next().to_le_bytes()[0];
        let length = u32::from_le_bytes(corrupted[32..36].try_into().unwrap()) as usize;
        let crc = crc32c::crc32c(&corrupted[40..40 + length]);
        corrupted[36..40].copy_from_slice(&crc.to_le_bytes());
        let forged = disk.copy();
        forged.change(&segment, |bytes| bytes.clone_from(&corrupted));
        let manifest = disk.files()[Path::new(FILE)].clone();
        let manifest = forge::with_crc(&manifest, 0, crc);
        forged.change(Path::new(FILE), |bytes| bytes.clone_from(&manifest));
        if let Ok(Some(loaded)) = load_with(&store(&forged).unwrap(), &LoadOptions::new().threads(1)) {
            // Accepted data can be decoded.
            let items = loaded.snapshot.tables.iter().flat_map(|table| &table.items);
            items.for_each(|item| drop(item.data.trajectory.decode().unwrap()));
        }
    }
}

/// Returns the error of loading a forged checkpoint, and checks that verifying finds the damage too.
fn refusal(forge: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let disk = SimulatedDisk::new();
    save(&store(&disk).unwrap(), &snapshot(0..12)).unwrap();
    disk.change(Path::new(FILE), |bytes| *bytes = forge(bytes));
    let catalog = Catalog::on(Arc::new(LocalStorage::on(Arc::new(disk.clone()), "/store")));
    assert!(!catalog.verify(&CheckpointProgress::default()).unwrap().is_whole());
    load_with(&store(&disk).unwrap(), &LoadOptions::new()).unwrap_err().to_string()
}

#[test]
fn a_block_with_too_many_entries_is_refused() {
    for number in [1, 2] {
        let error = refusal(|file| forge::with_count(file, number, 65_537));
        assert!(error.ends_with("the block has 65537 entries; the limit is 65536"), "{error}");
    }
}

#[test]
fn totals_that_differ_from_the_contents_are_refused() {
    let items = refusal(|file| forge::with_totals(file, |totals| totals.items += 1));
    assert!(items.ends_with("the checkpoint has 19 items, but describes 18"), "{items}");
    let chunks = refusal(|file| forge::with_totals(file, |totals| totals.chunks += 1));
    assert!(chunks.ends_with("the checkpoint has 14 chunks, but describes 13"), "{chunks}");
    let bytes = refusal(|file| forge::with_totals(file, |totals| totals.chunk_bytes += 1));
    assert!(bytes.contains(" bytes of chunks, but describes "), "{bytes}");
}
