//! Stores that are saved, damaged, loaded, and used again.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use relive_tensor::DType;

use super::*;
use crate::error::ErrorKind;
use crate::schema::{Column, Schema};
use crate::store::{Inserted, Removal, Reweigh, State, Status, Store, StoreOptions};

const CAPACITY: u64 = 7;
const MAX_STEPS: u64 = 5;

fn options(removal: Removal) -> StoreOptions {
    StoreOptions { removal, touch_threads: 0, readers: 2, writers: 0, seed: 9, ..StoreOptions::new(CAPACITY) }
}

fn schema() -> Schema {
    let columns = vec![Column::new("a", DType::Float32, &[3]), Column::new("b", DType::UInt8, &[])];
    Schema::new(MAX_STEPS, columns).unwrap()
}

fn removal(which: usize) -> Removal {
    [Removal::Fifo, Removal::Lifo, Removal::LowestWeight, Removal::Random, Removal::MaxTimesSampled(2)][which]
        .clone()
}

/// A change to a store.
#[derive(Clone, Debug)]
enum Change {
    Insert { length: u64, weight: u8 },
    Reweigh { index: u64, weight: u8 },
    Sample { index: u64 },
    Remove { index: u64 },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (1..=MAX_STEPS, 0_u8..4).prop_map(|(length, weight)| Change::Insert { length, weight }),
        1 => (0..CAPACITY, 0_u8..4).prop_map(|(index, weight)| Change::Reweigh { index, weight }),
        1 => (0..CAPACITY).prop_map(|index| Change::Sample { index }),
        1 => (0..CAPACITY).prop_map(|index| Change::Remove { index }),
    ]
}

fn apply(store: &Store, number: u64, change: &Change) -> Option<Inserted> {
    match *change {
        Change::Insert { length, weight } => {
            let bytes: Vec<u8> =
                (0..length * 13).map(|i| u8::try_from((i * 7 + number * 31) % 256).unwrap()).collect();
            let (a, b) = bytes.split_at(usize::try_from(length * 12).unwrap());
            return Some(store.insert(&[a, b], length, f32::from(weight)).unwrap());
        }
        Change::Reweigh { index, weight } => {
            let generation = store.status(index).unwrap().generation;
            store.update_weights(&[Reweigh { index, generation, weight: f32::from(weight) }]).unwrap();
        }
        Change::Sample { index } => drop(store.reader().pin_present(&[index]).unwrap()),
        Change::Remove { index } => {
            let generation = store.status(index).unwrap().generation;
            store.remove(&[Inserted { index, generation }]).unwrap();
        }
    }
    None
}

/// The visible state of a row.
type RowContents = (Status, Vec<Vec<u8>>);

fn rows_of(store: &Store) -> Vec<RowContents> {
    let look = |index| {
        let status = store.status(index).unwrap();
        let pinned = store.reader().hold(&[index]).unwrap().0;
        let columns = (0..2 * pinned.rows().len()).map(|column| pinned.bytes(0, column).unwrap().to_vec());
        let mut actual = status;
        if status.state == State::Free {
            // Bytes left over from the previous trajectory.
            actual = Status { length: 0, inserted: 0, sampled: 0, ..status };
        }
        (actual, columns.collect())
    };
    (0..store.capacity()).map(look).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Saves the store several times along the way, loads the last checkpoint, and uses the loaded store again.
    #[test]
    fn a_loaded_store_equals_the_saved_one_and_behaves_identically(
        which in 0_usize..5,
        rounds in proptest::collection::vec(proptest::collection::vec(change(), 0..15), 1..4),
        after in proptest::collection::vec(change(), 0..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(schema(), options(removal(which))).unwrap();
        let mut number = 0;
        for round in &rounds {
            for change in round {
                number += 1;
                apply(&store, number, change);
            }
            let saved = store.save(folder.path()).unwrap();
            prop_assert_eq!(saved.rows, store.len());
            let checkpoint = Checkpoint::open(folder.path()).unwrap();
            let loaded = checkpoint.load(None, options(removal(which))).unwrap();
            prop_assert_eq!(rows_of(&loaded), rows_of(&store));
            store = loaded;
        }
        let again = Store::load(folder.path()).unwrap();
        for change in &after {
            number += 1;
            prop_assert_eq!(apply(&store, number, change), apply(&again, number, change));
        }
        prop_assert_eq!(rows_of(&again), rows_of(&store));
    }
}

fn filled(removal: Removal) -> Store {
    let store = Store::create(schema(), options(removal)).unwrap();
    for number in 0..CAPACITY {
        apply(&store, number, &Change::Insert { length: 4, weight: 1 });
    }
    store
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn only_new_rows_are_written_and_old_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    assert_eq!(store.save(folder.path()).unwrap().written_rows, CAPACITY);
    assert_eq!(store.save(folder.path()).unwrap().written_rows, 0);
    for n in 0..3 {
        apply(&store, 100 + n, &Change::Insert { length: 5, weight: 1 });
    }
    let saved = store.save(folder.path()).unwrap();
    assert_eq!((saved.number, saved.written_rows, saved.removed_files), (3, 3, 0));
    assert_eq!(saved.written_bytes, 3 * 5 * 13);
    // Less than half of the first file is still needed, so these rows are written again and the file is removed.
    apply(&store, 200, &Change::Insert { length: 5, weight: 1 });
    let saved = store.save(folder.path()).unwrap();
    assert_eq!((saved.written_rows, saved.removed_files), (4, 1));
    assert_eq!(
        files(folder.path()),
        ["rows-0000000003.data", "rows-0000000004.data", "store.lock", "store.manifest"]
    );
    assert_eq!(rows_of(&Store::load(folder.path()).unwrap()), rows_of(&store));
}

/// Equal generations in two stores do not imply equal data.
#[test]
fn a_different_store_writes_all_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    filled(Removal::Fifo).save(folder.path()).unwrap();
    let other = Store::create(schema(), options(Removal::Fifo)).unwrap();
    apply(&other, 55, &Change::Insert { length: 2, weight: 1 });
    assert_eq!(other.save(folder.path()).unwrap().written_rows, 1);
    let loaded = Store::load(folder.path()).unwrap();
    assert_eq!(rows_of(&loaded), rows_of(&other));
    // Two stores continue from the same checkpoint; only its owner may build on it.
    apply(&other, 56, &Change::Insert { length: 2, weight: 1 });
    other.save(folder.path()).unwrap();
    apply(&loaded, 57, &Change::Insert { length: 2, weight: 1 });
    assert_eq!(loaded.save(folder.path()).unwrap().written_rows, 2);
    assert_eq!(rows_of(&Store::load(folder.path()).unwrap()), rows_of(&loaded));
}

/// Defect 16: an opened checkpoint equals the saved one, or an error names the place where it differs.
#[test]
fn damage_is_reported_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Random);
    store.save(folder.path()).unwrap();
    let data = folder.path().join("rows-0000000001.data");
    let bytes = fs::read(&data).unwrap();
    let extents = [4096, 8192];
    for at in extents {
        let mut damaged = bytes.clone();
        damaged[at + 5] ^= 1;
        fs::write(&data, &damaged).unwrap();
        let error = Store::load(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with(&format!("bytes {at} to ")), "{error}");
    }
    fs::write(&data, &bytes[..bytes.len() - 1]).unwrap();
    assert!(Store::load(folder.path()).unwrap_err().to_string().contains("ends before byte"));
    fs::write(&data, [0; 16]).unwrap();
    assert!(Store::load(folder.path()).unwrap_err().to_string().contains("is not a file of rows"));
    fs::remove_file(&data).unwrap();
    assert!(Store::load(folder.path()).unwrap_err().to_string().contains("is missing"));
    fs::remove_file(folder.path().join("store.manifest")).unwrap();
    assert_eq!(Store::load(folder.path()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn invalid_checkpoint_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    store.save(folder.path()).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert_eq!((checkpoint.number(), checkpoint.rows(), checkpoint.schema()), (1, CAPACITY, &schema()));
    for options in [options(Removal::Lifo), StoreOptions::new(CAPACITY + 1)] {
        assert_eq!(checkpoint.load(None, options).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let other = Schema::new(3, vec![Column::new("a", DType::Float32, &[3])]).unwrap();
    let other = Store::create(other, options(Removal::Fifo)).unwrap();
    let error = other.save(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("3 steps of (a float32[3])") && error.contains("5 steps of (a float32[3], b"),
        "{error}"
    );
    let callback = options(Removal::Callback(std::sync::Arc::new(|_| None)));
    let elsewhere = tempfile::tempdir().unwrap();
    Store::create(schema(), callback.clone()).unwrap().save(elsewhere.path()).unwrap();
    let error = Store::load(elsewhere.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("pass options with a callback"), "{error}");
    Checkpoint::open(elsewhere.path()).unwrap().load(None, callback).unwrap();
    let _lock = save::lock(folder.path()).unwrap();
    assert_eq!(store.save(folder.path()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_loaded_store_without_a_name_is_in_private_memory() {
    let folder = tempfile::tempdir().unwrap();
    filled(Removal::Fifo).save(folder.path()).unwrap();
    assert!(Store::load(folder.path()).unwrap().descriptor().is_none());
}

/// A process that is forked during a save keeps copies of all files, including the locked one.
#[test]
fn a_copy_of_the_lock_does_not_keep_the_folder_locked() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    let lock = save::lock(folder.path()).unwrap();
    let _copy = lock.0.try_clone().unwrap();
    drop(lock);
    store.save(folder.path()).unwrap();
}

/// A checkpoint that was opened before a save is complete, although the save has removed its files.
#[test]
fn a_save_does_not_affect_an_open_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    store.save(folder.path()).unwrap();
    let expected = rows_of(&store);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    for number in 0..CAPACITY {
        apply(&store, 100 + number, &Change::Insert { length: 3, weight: 1 });
    }
    assert_eq!(store.save(folder.path()).unwrap().removed_files, 1);
    assert_eq!(rows_of(&checkpoint.load(None, options(Removal::Fifo)).unwrap()), expected);
    assert_eq!(rows_of(&Store::load(folder.path()).unwrap()), rows_of(&store));
}

/// Every load finds a whole checkpoint, although saves replace all files all the time.
#[test]
fn loads_and_saves_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    store.save(folder.path()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for _ in 0..CAPACITY {
                    number += 1;
                    apply(&store, number, &Change::Insert { length: 1, weight: 1 });
                }
                store.save(folder.path()).unwrap();
            }
        });
        let loaded: Vec<_> = (0..40).map(|_| Store::load(folder.path()).map(|store| store.len())).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for rows in loaded {
            assert_eq!(rows.unwrap(), CAPACITY);
        }
    });
}

/// The last sample of a trajectory may be counted after its weight was saved.
#[test]
fn an_exhausted_trajectory_has_no_weight_after_loading() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::MaxTimesSampled(2));
    store.inner.segment.sampled()[3].store(2, std::sync::atomic::Ordering::SeqCst);
    store.save(folder.path()).unwrap();
    let loaded = Store::load(folder.path()).unwrap();
    let Status { weight, sampled, .. } = loaded.status(3).unwrap();
    assert_eq!((weight.to_bits(), sampled), (0, 2));
    assert!(loaded.status(4).unwrap().weight > 0.0);
}

/// Writers continue while a store is saved, and every saved trajectory is complete.
#[test]
fn saves_and_writers_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number = number.wrapping_add(1);
                let Ok(mut writing) = store.begin_within(std::time::Duration::from_secs(5)) else { return };
                writing.column(0).unwrap().fill(number);
                writing.column(1).unwrap().fill(number);
                writing.commit(MAX_STEPS, 1.0).unwrap();
            }
        });
        for _ in 0..30 {
            store.save(folder.path()).unwrap();
            let loaded = Store::load(folder.path()).unwrap();
            for (status, columns) in rows_of(&loaded) {
                if status.length == MAX_STEPS {
                    assert!(columns.concat().iter().all(|&byte| byte == columns[1][0]), "{columns:?}");
                }
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Data files that are missing from the folder are written again, so every save can be loaded.
#[test]
fn rows_of_lost_files_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    store.save(folder.path()).unwrap();
    fs::remove_file(folder.path().join("rows-0000000001.data")).unwrap();
    apply(&store, 100, &Change::Insert { length: 5, weight: 1 });
    assert_eq!(store.save(folder.path()).unwrap().written_rows, CAPACITY);
    assert_eq!(rows_of(&Store::load(folder.path()).unwrap()), rows_of(&store));
    let data = folder.path().join("rows-0000000002.data");
    let short = fs::read(&data).unwrap().len() - 1;
    fs::OpenOptions::new().write(true).open(&data).unwrap().set_len(short as u64).unwrap();
    let saved = store.save(folder.path()).unwrap();
    assert_eq!((saved.written_rows, saved.removed_files), (CAPACITY, 1));
    assert_eq!(rows_of(&Store::load(folder.path()).unwrap()), rows_of(&store));
}

#[test]
fn a_failed_save_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(Removal::Fifo);
    store.save(folder.path()).unwrap();
    let before = files(folder.path());
    apply(&store, 100, &Change::Insert { length: 5, weight: 1 });
    // The manifest cannot be written if a folder has its name.
    let blocked = folder.path().join("store.manifest.tmp");
    fs::create_dir(&blocked).unwrap();
    assert_eq!(store.save(folder.path()).unwrap_err().kind(), ErrorKind::System);
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(files(folder.path()), before);
    assert_eq!(store.save(folder.path()).unwrap().written_rows, 1);
    let manifest = folder.path().join("store.manifest");
    fs::write(&manifest, b"damaged").unwrap();
    let error = store.save(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("save into another folder"), "{error}");
    let error = store.save("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!Path::new("store.lock").exists());
}
