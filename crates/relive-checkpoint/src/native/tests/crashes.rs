//! Killed at every operation, with all, some or none of the non-durable data.

use super::support::{assert_no_garbage, later, load, save, snapshot, store, told};
use crate::simulated_disk::{Crash, SimulatedDisk, Trouble};

/// A disk with a checkpoint, and the checkpoint's contents.
fn begun() -> (SimulatedDisk, String) {
    let disk = SimulatedDisk::new();
    let store = store(&disk).unwrap();
    let first = snapshot(0..20);
    save(&store, &first).unwrap();
    (disk, told(&first))
}

/// Loads, continues, and saves on a disk that dies at some operation of the save. Returns whether the save succeeded,
/// and the contents that it had to save.
fn save_and_die(disk: &SimulatedDisk, keep: usize, at: usize) -> (bool, String) {
    let store = store(disk).unwrap().keep(keep);
    let before = load(&store).unwrap().snapshot;
    // Most of the first segments becomes garbage, so that their remaining chunks are rewritten.
    let second = later(&before, |number| number % 5 == 0 || number > 15, 30..40);
    disk.trouble(Trouble::DeadFrom(at));
    (save(&store, &second).is_ok(), told(&second))
}

fn survives(begun: &(SimulatedDisk, String), keep: usize, at: usize, crash: Crash) -> bool {
    let disk = begun.0.copy();
    let (is_saved, second) = save_and_die(&disk, keep, at);
    let disk = disk.after(crash);
    let store = store(&disk).unwrap().keep(keep);
    let found = told(&load(&store).unwrap().snapshot);
    let place = format!("killed at operation {at}, {crash:?}, keeping {keep}");
    match is_saved {
        true => assert!(found == second, "{place}: what was confirmed is not there"),
        false => assert!(found == second || found == begun.1, "{place}: neither the old nor the new"),
    }
    let third = later(&load(&store).unwrap().snapshot, |number| number != 16, 50..53);
    save(&store, &third).unwrap();
    assert!(told(&load(&store).unwrap().snapshot) == told(&third), "{place}: a later one is wrong");
    assert_no_garbage(&disk);
    is_saved
}

#[test]
fn whenever_the_server_is_killed_a_whole_checkpoint_is_left() {
    let begun = begun();
    for keep in [1, 2] {
        let mut at = 0;
        let mut survived = 0;
        // Until a few operations after the last one.
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
fn the_first_checkpoint_is_there_or_not() {
    let first = snapshot(0..6);
    let mut saved = false;
    let mut at = 0;
    while !saved {
        for crash in [Crash::Loses, Crash::Keeps, Crash::Mixes(1), Crash::Mixes(2)] {
            let disk = SimulatedDisk::new();
            disk.trouble(Trouble::DeadFrom(at));
            saved = store(&disk).is_ok_and(|store| save(&store, &first).is_ok());
            let disk = disk.after(crash);
            let store = store(&disk).unwrap();
            let found = load(&store).map(|loaded| told(&loaded.snapshot));
            assert!(found.is_none_or(|found| found == told(&first)), "killed at operation {at}, {crash:?}");
            save(&store, &first).unwrap();
            assert_no_garbage(&disk);
        }
        at += 1;
    }
    assert!(at > 40, "{at} operations");
}
