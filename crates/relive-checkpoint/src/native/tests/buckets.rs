//! Tests checkpoints in a bucket whose service fails, loses its answer, or becomes unreachable, at each request in
//! turn.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::support::{SIZES, describe, later, load, save, snapshot};
use crate::Error;
use crate::native::{Listing, Store};
use crate::storage::Storage;
use crate::storage::bucket::faults::{Fault, Faulty, RequestFailure, SLOW, at};
use crate::storage::bucket::real::Server;
use crate::storage::bucket::tuning::Tuning;

/// The place that these tests use.
const PLACE: &str = "runs/a";

fn store(service: &Faulty) -> Result<Store, Error> {
    Store::on(Arc::new(at(service, PLACE, SLOW)), SIZES)
}

/// Checks that the objects are exactly those that the checkpoints need.
fn assert_no_garbage(service: &Faulty) {
    let storage = at(service, PLACE, SLOW);
    let listing = Listing::read(&storage).unwrap();
    let mut needed = HashSet::new();
    for (number, _) in &listing.checkpoints {
        let name = crate::names::checkpoint_name(*number);
        let (description, _) = crate::manifest::read_description(&storage, &name).unwrap();
        needed.extend(description.segments.into_iter().map(|segment| segment.id));
    }
    assert_eq!(listing.segments.keys().copied().collect::<HashSet<_>>(), needed);
}

/// Saves, loads and prunes, with successive servers in one place.
fn keeps_checkpoints(place: impl Fn() -> Arc<dyn Storage>) {
    let store = || Store::on(place(), SIZES).unwrap().keep(2);
    let first = snapshot(0..60);
    let one = store();
    assert!(load(&one).is_none());
    let whole = save(&one, &first).unwrap();
    let second = later(&first, |number| number > 2, 80..83);
    let little = save(&one, &second).unwrap();
    assert!(little * 3 < whole, "{little} bytes after {whole}");
    let url = format!("{}/checkpoint-0000000002.relive", place().describe(""));
    assert_eq!(one.latest().unwrap(), Some(url));
    drop(one);
    let other = store();
    let loaded = load(&other).unwrap().snapshot;
    assert_eq!(describe(&loaded), describe(&second));
    let third = later(&loaded, |number| number % 7 != 0, 90..99);
    save(&other, &third).unwrap();
    assert_eq!(describe(&load(&other).unwrap().snapshot), describe(&third));
    assert_eq!(Listing::read(place().as_ref()).unwrap().checkpoints.len(), 2);
}

#[test]
fn a_bucket_stores_checkpoints_like_a_folder() {
    let service = Faulty::default();
    keeps_checkpoints(|| Arc::new(at(&service, PLACE, SLOW)));
    assert_no_garbage(&service);
    assert_eq!(service.open_uploads(), 0);
}

#[test]
fn a_real_bucket_stores_checkpoints_like_a_folder() {
    let Some(server) = Server::of_this_run() else { return };
    keeps_checkpoints(|| Arc::new(server.at("checkpoints", Tuning::default())));
}

#[test]
fn a_failed_request_loses_only_one_checkpoint() {
    let mut failures = 0;
    for fault in [Fault::Refused, Fault::Unanswered] {
        let mut number = 0;
        loop {
            let service = Faulty::default();
            let store = store(&service).unwrap().keep(2);
            let first = snapshot(0..12);
            save(&store, &first).unwrap();
            let second = later(&first, |number| number % 3 != 0, 20..26);
            service.set_failure(RequestFailure::Once(number, fault));
            let saved = save(&store, &second);
            let is_over = service.steps() <= number;
            service.set_failure(RequestFailure::None);
            let found = describe(&load(&store).unwrap().snapshot);
            match saved {
                Ok(_) => assert!(found == describe(&second), "request {number} {fault:?}"),
                Err(error) => {
                    failures += 1;
                    assert!(error.to_string().contains("was made to fail"), "{error}");
                    assert!(
                        found == describe(&first) || found == describe(&second),
                        "request {number} {fault:?}"
                    );
                }
            }
            let third = later(&second, |number| number != 7, 40..43);
            save(&store, &third).unwrap();
            assert!(
                describe(&load(&store).unwrap().snapshot) == describe(&third),
                "request {number} {fault:?}"
            );
            assert_no_garbage(&service);
            if is_over {
                break;
            }
            number += 1;
        }
    }
    assert!(failures > 10, "{failures} failures");
}

#[test]
fn a_complete_checkpoint_survives_any_bucket_failure() {
    let first = snapshot(0..12);
    let mut number = 0;
    loop {
        let service = Faulty::default();
        let dies = store(&service).unwrap().keep(1);
        save(&dies, &first).unwrap();
        let second = later(&first, |number| number % 5 == 0 || number > 8, 30..40);
        service.set_failure(RequestFailure::From(number));
        let is_saved = save(&dies, &second).is_ok();
        let is_over = service.steps() <= number;
        drop(dies);
        service.set_failure(RequestFailure::None);
        service.remove_lock(PLACE);
        let next = store(&service).unwrap().keep(1);
        let found = load(&next).unwrap().snapshot;
        assert!(
            describe(&found) == describe(&second) || (!is_saved && describe(&found) == describe(&first)),
            "gone at request {number}"
        );
        let third = later(&found, |number| number != 9, 50..53);
        save(&next, &third).unwrap();
        assert!(describe(&load(&next).unwrap().snapshot) == describe(&third), "gone at request {number}");
        assert_no_garbage(&service);
        if is_over {
            break;
        }
        number += 1;
    }
    assert!(number > 10, "{number} requests");
}

#[test]
fn the_first_writer_of_a_checkpoint_name_wins() {
    let service = Faulty::default();
    let (first, second) = (snapshot(0..5), snapshot(20..25));
    let whole = Tuning { part_bytes: 1 << 20, ..SLOW };
    let store = |service: &Faulty| Store::on(Arc::new(at(service, PLACE, whole)), SIZES);
    let one = store(&service).unwrap();
    save(&one, &first).unwrap();
    // Another process took over the lock and continued while this process was suspended.
    service.remove_lock(PLACE);
    let other = store(&service).unwrap();
    let (arrival, go) = service.hold_put("runs/a/checkpoint-0000000002.relive");
    let late = std::thread::spawn(move || save(&one, &first));
    arrival.recv_timeout(Duration::from_secs(30)).unwrap();
    save(&other, &second).unwrap();
    go.send(()).unwrap();
    let error = late.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("another server wrote it"), "{error}");
    assert_eq!(
        describe(&load(&other).unwrap().snapshot),
        describe(&second),
        "the other's file is left alone"
    );
}
