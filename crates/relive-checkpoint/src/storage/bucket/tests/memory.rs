//! Tests files in a store that fails on demand.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::storage::bucket::faults::{self, Fault, Faulty, QUICK, SLOW, Step};
use crate::storage::conformance::{self, content, names, read, write};
use crate::storage::{BucketStorage, Storage};

fn at(store: &Faulty, name: &str) -> BucketStorage {
    faults::at(store, name, QUICK)
}

/// Polls until the condition holds.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// The time to wait for an event that must occur.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const LARGE: usize = 20 << 20;

#[test]
fn a_bucket_conforms() {
    let store = Faulty::default();
    conformance::check(&|name| Arc::new(at(&store, name)));
    assert_eq!(store.open_uploads(), 0, "every upload that was begun was completed or aborted");
}

#[test]
fn at_most_four_parts_are_uploaded_at_a_time() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let gate = store.close_gate();
    let writer = std::thread::spawn(move || write(&storage, "x", &content(80 << 20, 1)));
    until("four parts are under way", || store.parts_under_way() == 4);
    gate.add_permits(100);
    writer.join().unwrap();
    assert_eq!(store.most_parts_under_way(), 4);
}

#[test]
fn a_failed_upload_leaves_nothing_behind() {
    for step in [Step::Put, Step::Begin, Step::Part, Step::Complete] {
        let store = Faulty::default();
        let storage = at(&store, "a");
        store.fail(step, "a/x", Fault::Refused);
        let bytes = content(if step == Step::Put { 100 } else { LARGE }, 1);
        let mut upload = storage.create("x").unwrap();
        let error = upload.write(&mut [IoSlice::new(&bytes)]).and_then(|()| upload.finish()).unwrap_err();
        assert_eq!(error.to_string(), format!("{step:?} was made to fail"));
        assert_eq!(store.open_uploads(), 0, "{step:?}");
        store.clear_failure();
        assert_eq!(names(&storage, ""), Vec::<String>::new());
        write(&storage, "x", &bytes);
        assert!(read(&storage, "x") == bytes);
    }
}

#[test]
fn a_lost_answer_is_not_a_failure() {
    for (step, length) in [(Step::Put, 100), (Step::Complete, LARGE)] {
        let store = Faulty::default();
        let storage = at(&store, "a");
        store.fail(step, "a/x", Fault::Unanswered);
        let bytes = content(length, 1);
        write(&storage, "x", &bytes);
        assert!(read(&storage, "x") == bytes, "{step:?}");
    }
}

#[test]
fn a_file_is_never_overwritten() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    let bytes = content(LARGE, 1);
    write(&storage, "x", &bytes);
    for length in [LARGE, 100] {
        let mut upload = storage.create("x").unwrap();
        upload.write(&mut [IoSlice::new(&content(length, 2))]).unwrap();
        let error = upload.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(
            error
                .to_string()
                .ends_with("another server wrote it: let only one server write to this location"),
            "{error}"
        );
        assert!(read(&storage, "x") == bytes);
    }
    assert_eq!(store.open_uploads(), 0);
}

#[test]
fn a_failed_abort_is_tolerated() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    store.fail(Step::Abort, "a/x", Fault::Refused);
    let mut upload = storage.create("x").unwrap();
    upload.write(&mut [IoSlice::new(&content(LARGE, 1))]).unwrap();
    drop(upload);
    assert_eq!(store.open_uploads(), 1, "its parts stay, for the rules of the bucket to remove");
    assert_eq!(names(&storage, ""), Vec::<String>::new());
}

#[test]
fn failed_reads_are_reported() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    write(&storage, "x", &content(LARGE, 1));
    let source = storage.open("x").unwrap();
    store.fail(Step::Get, "a/x", Fault::Refused);
    store.fail(Step::List, "a", Fault::Refused);
    for length in [1, LARGE] {
        let error = source.read_exact_at(&mut vec![0; length], 0).unwrap_err();
        assert_eq!(error.to_string(), "Get was made to fail");
    }
    assert!(storage.list("").is_err());
    assert!(storage.open("x").is_err());
    store.clear_failure();
    assert_eq!(storage.open("x").unwrap().size_bytes(), LARGE as u64);
}

#[test]
fn a_file_that_shrinks_while_being_read_is_detected() {
    let store = Faulty::default();
    let storage = at(&store, "a");
    write(&storage, "x", &content(LARGE, 1));
    let source = storage.open("x").unwrap();
    storage.remove("x").unwrap();
    write(&storage, "x", &content(100, 1));
    for length in [200, LARGE] {
        assert!(source.read_exact_at(&mut vec![0; length], 0).is_err());
    }
}

#[test]
fn storage_works_inside_foreign_runtimes() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let storage = at(&Faulty::default(), "a");
        let lock = storage.lock().unwrap();
        write(&storage, "x", b"1");
        assert_eq!(read(&storage, "x"), b"1");
        drop((lock, storage));
    });
}

#[test]
fn a_file_with_too_many_parts_is_refused() {
    let store = Faulty::default();
    let storage = faults::at(&store, "a", SLOW);
    write(&storage, "x", &content(10_000_000, 1));
    let mut upload = storage.create("y").unwrap();
    let error = upload.write(&mut [IoSlice::new(&content(10_001_001, 1))]).unwrap_err();
    assert_eq!(error.to_string(), "the file is larger than 10000000 bytes, the limit of an upload");
    drop(upload);
    assert_eq!(names(&storage, ""), ["x"]);
}
