//! Tests crashes at every operation, after which all, some or none of the non-durable data survives.

use super::support::{assert_no_garbage, describe, later, load, save, snapshot, store};
use crate::simulated_disk::{Crash, DiskFailure, SimulatedDisk};

/// Returns a disk with a checkpoint, and the checkpoint's contents.
fn saved_once() -> (SimulatedDisk, String) {
    let disk = SimulatedDisk::new();
    let store = store(&disk).unwrap();
    let first = snapshot(0..20);
    save(&store, &first).unwrap();
    (disk, describe(&first))
}

/// Loads a checkpoint, makes changes, and saves them on a disk on which operation `at` of the save and all later
/// operations fail. Returns whether the save succeeded, and the contents that it was meant to save.
fn save_and_die(disk: &SimulatedDisk, keep: usize, at: usize) -> (bool, String) {
    let store = store(disk).unwrap().keep(keep);
    let before = load(&store).unwrap().snapshot;
    // Most of the first segments become garbage, so that their remaining chunks are rewritten.
    let second = later(&before, |number| number % 5 == 0 || number > 15, 30..40);
    disk.set_failure(DiskFailure::DeadFrom(at));
    (save(&store, &second).is_ok(), describe(&second))
}

fn survives(begun: &(SimulatedDisk, String), keep: usize, at: usize, crash: Crash) -> bool {
    let disk = begun.0.copy();
    let (is_saved, second) = save_and_die(&disk, keep, at);
    let disk = disk.after(crash);
    let store = store(&disk).unwrap().keep(keep);
    let found = describe(&load(&store).unwrap().snapshot);
    let place = format!("killed at operation {at}, {crash:?}, keeping {keep}");
    match is_saved {
        true => assert!(found == second, "{place}: what was confirmed is not there"),
        false => assert!(found == second || found == begun.1, "{place}: neither the old nor the new"),
    }
    let third = later(&load(&store).unwrap().snapshot, |number| number != 16, 50..53);
    save(&store, &third).unwrap();
    assert!(describe(&load(&store).unwrap().snapshot) == describe(&third), "{place}: a later one is wrong");
    assert_no_garbage(&disk);
    is_saved
}

#[test]
fn a_complete_checkpoint_survives_a_kill_at_any_point() {
    let begun = saved_once();
    for keep in [1, 2] {
        let mut at = 0;
        let mut survived = 0;
        // Continues until a few operations after the last one of a save.
        while survived < 40 {
            let mixes = (0..3).map(|seed| Crash::Mixes(seed + 7 * at as u64));
            let saved = [Crash::Loses, Crash::Keeps].into_iter().chain(mixes);
            let saved = saved.map(|crash| survives(&begun, keep, at, crash)).collect::<Vec<_>>();
            survived += usize::from(saved.contains(&true));
            at += 1;
        }
        assert!(at > 100, "{at} operations");
    }
}

#[test]
fn a_crashed_first_checkpoint_is_complete_or_absent() {
    let first = snapshot(0..6);
    let mut saved = false;
    let mut at = 0;
    while !saved {
        for crash in [Crash::Loses, Crash::Keeps, Crash::Mixes(1), Crash::Mixes(2)] {
            let disk = SimulatedDisk::new();
            disk.set_failure(DiskFailure::DeadFrom(at));
            saved = store(&disk).is_ok_and(|store| save(&store, &first).is_ok());
            let disk = disk.after(crash);
            let store = store(&disk).unwrap();
            let found = load(&store).map(|loaded| describe(&loaded.snapshot));
            assert!(
                found.is_none_or(|found| found == describe(&first)),
                "killed at operation {at}, {crash:?}"
            );
            save(&store, &first).unwrap();
            assert_no_garbage(&disk);
        }
        at += 1;
    }
    assert!(at > 40, "{at} operations");
}
