//! Tests disks that fail temporarily or fill up while a server is running.

use super::support::{assert_no_garbage, describe, later, load, save, snapshot, store};
use crate::ErrorKind;
use crate::simulated_disk::{DiskFailure, SimulatedDisk};

#[test]
fn a_failure_loses_only_one_checkpoint() {
    let mut at = 0;
    let mut failures = 0;
    loop {
        let disk = SimulatedDisk::new();
        let store = store(&disk).unwrap().keep(2);
        let first = snapshot(0..12);
        save(&store, &first).unwrap();
        let second = later(&first, |number| number % 3 != 0, 20..26);
        disk.set_failure(DiskFailure::FailsOnce(at));
        let saved = save(&store, &second);
        let is_over = disk.operations() <= at;
        disk.set_failure(DiskFailure::None);
        match &saved {
            Ok(_) => assert!(describe(&load(&store).unwrap().snapshot) == describe(&second)),
            Err(error) => {
                failures += 1;
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(error.to_string().contains("a bad moment"), "{error}");
                let found = describe(&load(&store).unwrap().snapshot);
                assert!(found == describe(&first) || found == describe(&second), "operation {at}");
            }
        }
        // Data that was written but is not referenced must not count as written.
        let third = later(&second, |number| number != 7, 40..43);
        save(&store, &third).unwrap();
        assert!(describe(&load(&store).unwrap().snapshot) == describe(&third), "operation {at}");
        assert_no_garbage(&disk);
        if is_over {
            break;
        }
        at += 1;
    }
    assert!(failures > 50, "{failures} failures");
}

#[test]
fn a_full_disk_is_reported_and_writing_resumes_once_there_is_room() {
    let first = snapshot(0..12);
    let mut room = 0;
    loop {
        let disk = SimulatedDisk::new();
        let store = store(&disk).unwrap().keep(1);
        save(&store, &first).unwrap();
        let used: usize = disk.files().values().map(Vec::len).sum();
        let second = later(&first, |_| true, 20..30);
        disk.set_failure(DiskFailure::Full(used + room));
        match save(&store, &second) {
            Ok(_) => break,
            Err(error) => assert!(error.to_string().contains("cannot write /store/"), "{error}"),
        }
        assert_no_garbage(&disk);
        assert!(describe(&load(&store).unwrap().snapshot) == describe(&first), "with room for {room} bytes");
        disk.set_failure(DiskFailure::None);
        save(&store, &second).unwrap();
        assert!(describe(&load(&store).unwrap().snapshot) == describe(&second), "with room for {room} bytes");
        room += 61;
    }
    assert!(room > 4000, "{room} bytes");
}

#[test]
fn read_only_storage_can_be_loaded() {
    let disk = SimulatedDisk::new();
    let first = snapshot(0..5);
    save(&store(&disk).unwrap(), &first).unwrap();
    disk.make_read_only();
    let store = store(&disk).unwrap();
    assert_eq!(describe(&load(&store).unwrap().snapshot), describe(&first));
    let error = save(&store, &first).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /store/relive.lock: read-only filesystem or storage medium");
}

#[test]
fn a_second_server_is_refused_with_the_owner_of_the_folder() {
    let disk = SimulatedDisk::new();
    let one = store(&disk).unwrap();
    let error = store(&disk).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().starts_with("/store: process 7 writes its checkpoints here"), "{error}");
    drop(one);
    assert!(store(&disk).is_ok());
}
