//! Tests the lock on a place.

use std::io::IoSlice;
use std::sync::mpsc;
use std::time::Instant;

use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::memory::{PATIENCE, until};
use crate::ErrorKind;
use crate::storage::bucket::faults::{self, Fault, Faulty, QUICK, Step};
use crate::storage::bucket::note::{Note, own_process};
use crate::storage::conformance::{read, write};
use crate::storage::{BucketStorage, Storage};

const LOCK: &str = "a/relive.lock";

fn at(store: &Faulty, name: &str) -> BucketStorage {
    faults::at(store, name, QUICK)
}

fn note(store: &Faulty) -> Note {
    let bytes =
        store.directly(async |objects| objects.get(&Path::from(LOCK)).await.unwrap().bytes().await.unwrap());
    Note::parse(std::str::from_utf8(&bytes).unwrap()).unwrap()
}

fn put(store: &Faulty, text: String) {
    store.directly(async |objects| objects.put(&Path::from(LOCK), text.into()).await.unwrap());
}

#[test]
fn a_lock_is_renewed_until_released() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let lock = storage.lock().unwrap();
    let first = note(&store);
    assert_eq!(first.who, own_process());
    until("it is renewed", || note(&store).renewals > first.renewals + 1);
    drop(lock);
    assert_eq!(note(&store).owner, None);
}

#[test]
fn an_expired_lock_of_a_dead_owner_is_taken_over() {
    let store = Faulty::default();
    let dead = Note { owner: Some(1), who: "process 1 on a".to_owned(), renewals: 9 };
    put(&store, dead.to_string());
    let start = Instant::now();
    let storage = at(&store, "a");
    let _lock = storage.lock().unwrap();
    assert!(start.elapsed() >= QUICK.expires_after);
    assert_ne!(note(&store).owner, Some(1));
}

#[test]
fn one_of_many_gets_an_expired_lock() {
    let store = Faulty::default();
    put(&store, Note { owner: Some(1), who: "process 1 on a".to_owned(), renewals: 9 }.to_string());
    let (sender, results) = mpsc::channel();
    for _ in 0..4 {
        let (store, sender) = (store.clone(), sender.clone());
        std::thread::spawn(move || {
            let storage = at(&store, "a");
            let lock = storage.lock();
            sender.send(lock.map(|lock| (storage, lock))).unwrap();
        });
    }
    let results: Vec<_> = (0..4).map(|_| results.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .filter_map(|result| result.as_ref().err())
            .all(|error| error.kind() == ErrorKind::InUse)
    );
}

#[test]
fn a_writer_without_its_lock_stops_writing() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let lock = storage.lock().unwrap();
    let mut small = storage.create("small").unwrap();
    small.write(&mut [IoSlice::new(b"1")]).unwrap();
    let mut large = storage.create("large").unwrap();
    large.write(&mut [IoSlice::new(&vec![1; 20 << 20])]).unwrap();
    // Simulates a suspension of this process during which the lock expired and another process took it over.
    let other = Note { owner: Some(2), who: "process 2 on b".to_owned(), renewals: 0 };
    put(&store, other.to_string());
    until("it is noticed", || storage.create("x").is_err());
    let expected = "process 2 on b has taken over the lock, so this server writes no more checkpoints; only \
                    one server can write to a location";
    for refused in [small.finish(), large.finish(), storage.remove("x"), storage.create("x").map(drop)] {
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
    assert_eq!(store.open_uploads(), 0);
    drop(lock);
    assert_eq!(note(&store), other, "the lock of another is left alone");
}

#[test]
fn a_lock_that_cannot_be_renewed_is_lost() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let _lock = storage.lock().unwrap();
    for fault in [Fault::Refused, Fault::Hangs] {
        store.fail(Step::Put, LOCK, fault);
        until("it is not certain any more", || storage.create("x").is_err());
        let error = storage.create("x").map(drop).unwrap_err();
        assert_eq!(error.to_string(), "the lock could not be renewed; another server may have taken it over");
        store.clear_failure();
        until("it is renewed after all", || storage.create("x").is_ok());
    }
    write(&storage, "x", b"1");
    assert_eq!(read(&storage, "x"), b"1");
}

#[test]
fn uploads_in_progress_are_aborted_when_the_lock_is_lost() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let _lock = storage.lock().unwrap();
    for (step, length) in [(Step::Put, 100), (Step::Complete, 20 << 20)] {
        store.fail(step, "a/x", Fault::Hangs);
        let mut upload = storage.create("x").unwrap();
        upload.write(&mut [IoSlice::new(&vec![1; length])]).unwrap();
        store.fail(Step::Put, LOCK, Fault::Refused);
        let error = upload.finish().unwrap_err();
        assert_eq!(error.to_string(), "the lock could not be renewed; another server may have taken it over");
        assert_eq!(store.open_uploads(), 0, "it was aborted");
        store.clear_failure();
        until("it is renewed after all", || storage.create("x").is_ok());
    }
}

#[test]
fn lost_answers_to_renewals_keep_the_lock() {
    let store = Faulty::default();
    store.fail(Step::Put, LOCK, Fault::Unanswered);
    let storage = at(&store, "a");
    let lock = storage.lock().unwrap();
    let first = note(&store).renewals;
    until("it is renewed", || note(&store).renewals > first + 3);
    write(&storage, "x", b"1");
    drop(lock);
}

#[test]
fn an_object_that_is_not_a_lock_is_not_overwritten() {
    let store = Faulty::default();
    put(&store, "hello".to_owned());
    let error = at(&store, "a").lock().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Location);
    let expected = "cannot use s3://bucket/a: its relive.lock is not a lock of Relive; use another prefix, or remove the file";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_bucket_that_cannot_be_written_is_reported() {
    let store = Faulty::default();
    store.fail(Step::Put, LOCK, Fault::Refused);
    let error = at(&store, "a").lock().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.to_string(), "cannot write s3://bucket/a/relive.lock: Put was made to fail");
}

#[test]
fn large_objects_of_others_are_not_read() {
    let store = Faulty::default();
    put(&store, "x".repeat(1 << 20));
    assert_eq!(at(&store, "a").lock().map(drop).unwrap_err().kind(), ErrorKind::Location);
    assert!(store.read_bytes() <= 4096, "{} bytes", store.read_bytes());
    let before = store.read_bytes();
    store.directly(async |objects| objects.put(&Path::from("b/x"), vec![1; 1 << 20].into()).await.unwrap());
    let storage = at(&store, "b");
    let mut upload = storage.create("x").unwrap();
    upload.write(&mut [IoSlice::new(b"1")]).unwrap();
    assert_eq!(upload.finish().unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(store.read_bytes(), before);
}
