//! The contract of storages. The tests of each implementation call [`check`] with their own factory.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::thread;

use super::seam::Entry;
use super::{LocalStorage, Storage};
use crate::ErrorKind as Kind;

/// `at` opens the place with the given name. The place is empty at first, and calls with the same name open the same
/// place.
pub(crate) fn check(at: &dyn Fn(&str) -> Arc<dyn Storage>) {
    a_file_appears_when_it_is_finished(at("finished").as_ref());
    a_file_that_is_dropped_leaves_nothing(at("dropped").as_ref());
    files_of_all_sizes_are_whole(at("sizes").as_ref());
    a_file_is_read_anywhere_by_many(&at("many"));
    a_list_has_the_files_of_its_folder(at("list").as_ref());
    what_is_removed_is_gone(at("removed").as_ref());
    a_place_is_one_writers(at);
    places_are_apart(at);
}

/// Returns bytes in which no run repeats.
pub(crate) fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()
    };
    (0..length.div_ceil(4)).flat_map(|_| next().into_iter().take(4)).take(length).collect()
}

/// Writes a file in runs of several sizes.
pub(crate) fn write(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut upload = storage.create(name).unwrap();
    for (run, size) in bytes.chunks(1_000_003).zip([1, 7, 65_536, 300_000].into_iter().cycle()) {
        let mut parts: Vec<IoSlice<'_>> = run.chunks(size.max(run.len() / 100)).map(IoSlice::new).collect();
        upload.write(&mut parts).unwrap();
    }
    upload.finish().unwrap();
}

pub(crate) fn read(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let source = storage.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(source.size_bytes()).unwrap()];
    source.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(crate) fn names(storage: &dyn Storage, folder: &str) -> Vec<String> {
    let mut names: Vec<String> = storage.list(folder).unwrap().into_iter().map(|entry| entry.name).collect();
    names.retain(|name| !name.ends_with(".tmp"));
    names.sort();
    names
}

fn a_file_appears_when_it_is_finished(storage: &dyn Storage) {
    for length in [100, 20 << 20] {
        let name = format!("segments/{length}");
        let bytes = content(length, 1);
        let mut upload = storage.create(&name).unwrap();
        upload.write(&mut [IoSlice::new(&bytes)]).unwrap();
        assert!(!names(storage, "segments").contains(&name));
        assert_eq!(storage.open(&name).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        upload.finish().unwrap();
        assert!(names(storage, "segments").contains(&name));
        assert!(read(storage, &name) == bytes, "{length} bytes are not those that were written");
    }
}

fn a_file_that_is_dropped_leaves_nothing(storage: &dyn Storage) {
    for length in [0, 100, 20 << 20] {
        let mut upload = storage.create("segments/a").unwrap();
        upload.write(&mut [IoSlice::new(&content(length, 2))]).unwrap();
        drop(upload);
        assert_eq!(storage.list("segments").unwrap(), []);
        assert_eq!(storage.open("segments/a").map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

fn files_of_all_sizes_are_whole(storage: &dyn Storage) {
    for length in [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 40 << 20] {
        let (name, bytes) = (format!("{length}"), content(length, 3));
        write(storage, &name, &bytes);
        assert_eq!(storage.open(&name).unwrap().size_bytes(), length as u64);
        assert!(read(storage, &name) == bytes, "{length} bytes are not those that were written");
    }
}

fn a_file_is_read_anywhere_by_many(storage: &Arc<dyn Storage>) {
    let bytes = Arc::new(content(9_000_000, 4));
    write(storage.as_ref(), "a", &bytes);
    let source: Arc<dyn super::Source> = Arc::from(storage.open("a").unwrap());
    let readers = (1..=4).map(|reader: usize| {
        let (source, bytes) = (Arc::clone(&source), Arc::clone(&bytes));
        thread::spawn(move || {
            for size in [1, 100, 40_000, 3_000_000] {
                let mut place = reader * 13;
                for _ in 0..5 {
                    let mut run = vec![0; size];
                    source.read_exact_at(&mut run, place as u64).unwrap();
                    assert!(run == bytes[place..place + size], "{size} bytes at {place}");
                    place = (place + size * reader) % (bytes.len() - 3_000_000);
                }
            }
        })
    });
    readers.collect::<Vec<_>>().into_iter().for_each(|reader| reader.join().unwrap());
    for (size, place) in [(1, 9_000_000), (2, 8_999_999), (4_000_000, 5_000_001)] {
        let error = source.read_exact_at(&mut vec![0; size], place).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{size} bytes at {place}");
    }
    source.read_exact_at(&mut [], 9_000_000).unwrap();
}

fn a_list_has_the_files_of_its_folder(storage: &dyn Storage) {
    assert_eq!(storage.list("").unwrap(), []);
    assert_eq!(storage.list("nowhere").unwrap(), []);
    write(storage, "a", b"12");
    write(storage, "segments/b", b"123");
    write(storage, "segments/c", b"");
    write(storage, "segments2/d", b"1");
    let entry = |name: &str, size_bytes| Entry { name: name.to_owned(), size_bytes };
    assert_eq!(storage.list("").unwrap(), [entry("a", 2)]);
    let mut listed = storage.list("segments").unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("segments/b", 3), entry("segments/c", 0)]);
    assert_eq!(read(storage, "segments/b"), b"123");
}

fn what_is_removed_is_gone(storage: &dyn Storage) {
    write(storage, "segments/a", b"1");
    write(storage, "segments/b", b"2");
    storage.remove("segments/a").unwrap();
    assert_eq!(names(storage, "segments"), ["segments/b"]);
    assert_eq!(storage.open("segments/a").map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    write(storage, "segments/a", b"3");
    assert_eq!(read(storage, "segments/a"), b"3");
}

fn a_place_is_one_writers(at: &dyn Fn(&str) -> Arc<dyn Storage>) {
    let (one, other) = (at("lock"), at("lock"));
    let lock = one.lock().unwrap();
    let error = other.lock().map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::InUse);
    let text = error.to_string();
    let owner = format!("process {}", std::process::id());
    assert!(text.starts_with(&format!("{}: {owner}", one.describe(""))), "{text}");
    write(one.as_ref(), "a", b"1");
    assert_eq!(read(other.as_ref(), "a"), b"1", "the lock excludes only writers");
    drop(lock);
    let again = other.lock().unwrap();
    assert_eq!(one.lock().map(drop).unwrap_err().kind(), Kind::InUse);
    drop(again);
    drop(one.lock().unwrap());
}

fn places_are_apart(at: &dyn Fn(&str) -> Arc<dyn Storage>) {
    let (one, other) = (at("apart/a"), at("apart/b"));
    let (_one_lock, _other_lock) = (one.lock().unwrap(), other.lock().unwrap());
    write(one.as_ref(), "x", b"1");
    assert_eq!(names(other.as_ref(), ""), ["relive.lock"]);
    assert_eq!(names(at("apart").as_ref(), ""), Vec::<String>::new());
    assert!(one.describe("segments/x").ends_with("apart/a/segments/x"));
}

#[test]
fn a_folder_conforms() {
    let root = tempfile::tempdir().unwrap();
    check(&|name| Arc::new(LocalStorage::new(root.path().join(name))));
}
