//! Disks that fail temporarily, or fill up, under a running server.

use super::support::{assert_no_garbage, later, load, save, snapshot, store, told};
use crate::ErrorKind;
use crate::simulated_disk::{SimulatedDisk, Trouble};

#[test]
fn a_failure_costs_one_checkpoint_and_nothing_else() {
    let mut at = 0;
    let mut failures = 0;
    loop {
        let disk = SimulatedDisk::new();
        let store = store(&disk).unwrap().keep(2);
        let first = snapshot(0..12);
        save(&store, &first).unwrap();
        let second = later(&first, |number| number % 3 != 0, 20..26);
        disk.trouble(Trouble::FailsOnce(at));
        let saved = save(&store, &second);
        let is_over = disk.operations() <= at;
        disk.trouble(Trouble::None);
        match &saved {
            Ok(_) => assert!(told(&load(&store).unwrap().snapshot) == told(&second)),
            Err(error) => {
                failures += 1;
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(error.to_string().contains("a bad moment"), "{error}");
                let found = told(&load(&store).unwrap().snapshot);
                assert!(found == told(&first) || found == told(&second), "operation {at}");
            }
        }
        // Written but unreferenced data must not count as written.
        let third = later(&second, |number| number != 7, 40..43);
        save(&store, &third).unwrap();
        assert!(told(&load(&store).unwrap().snapshot) == told(&third), "operation {at}");
        assert_no_garbage(&disk);
        if is_over {
            break;
        }
        at += 1;
    }
    assert!(failures > 50, "{failures} failures");
}

#[test]
fn a_full_disk_is_told_and_once_there_is_room_it_goes_on() {
    let first = snapshot(0..12);
    let mut room = 0;
    loop {
        let disk = SimulatedDisk::new();
        let store = store(&disk).unwrap().keep(1);
        save(&store, &first).unwrap();
        let used: usize = disk.files().values().map(Vec::len).sum();
        let second = later(&first, |_| true, 20..30);
        disk.trouble(Trouble::Full(used + room));
        match save(&store, &second) {
            Ok(_) => break,
            Err(error) => assert!(error.to_string().contains("cannot write /store/"), "{error}"),
        }
        assert_no_garbage(&disk);
        assert!(told(&load(&store).unwrap().snapshot) == told(&first), "with room for {room} bytes");
        disk.trouble(Trouble::None);
        save(&store, &second).unwrap();
        assert!(told(&load(&store).unwrap().snapshot) == told(&second), "with room for {room} bytes");
        room += 61;
    }
    assert!(room > 4000, "{room} bytes");
}

#[test]
fn what_must_not_be_written_to_can_be_loaded() {
    let disk = SimulatedDisk::new();
    let first = snapshot(0..5);
    save(&store(&disk).unwrap(), &first).unwrap();
    disk.make_read_only();
    let store = store(&disk).unwrap();
    assert_eq!(told(&load(&store).unwrap().snapshot), told(&first));
    let error = save(&store, &first).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /store/relive.lock: read-only filesystem or storage medium");
}

#[test]
fn a_second_server_is_told_who_writes_here() {
    let disk = SimulatedDisk::new();
    let one = store(&disk).unwrap();
    let error = store(&disk).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(error.to_string().starts_with("/store: process 7 writes its checkpoints here"), "{error}");
    drop(one);
    assert!(store(&disk).is_ok());
}
