//! Weights: their number of changes, and their signs.

use super::{CAPACITY, insert, options, schema};
use crate::store::{Inserted, Removal, Reweigh, Store};

/// A copy of the weights is current while the number of changes stays the same.
#[test]
fn every_change_of_a_weight_is_counted() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(2))).unwrap();
    let reader = store.reader();
    let mut seen = reader.changes();
    let mut changed = |what: &str| {
        assert_ne!(std::mem::replace(&mut seen, reader.changes()), reader.changes(), "{what}");
    };
    let place = store.insert(&[&[1; 3], &[1; 8]], 1, 1.0).unwrap();
    changed("an insertion");
    let reweigh = Reweigh { index: place.index, generation: place.generation, weight: 2.0 };
    store.update_weights(&[reweigh]).unwrap();
    changed("a new weight");
    drop(store.pin(&[place.index, place.index]).unwrap());
    changed("the last time that it may be sampled");
    store.remove(&[place]).unwrap();
    changed("its removal");
    let before = reader.changes();
    drop(store.begin().unwrap());
    store.update_weights(&[reweigh]).unwrap();
    assert_eq!(reader.changes(), before);
}

/// An exhausted trajectory that was pinned at the time of an eviction is evicted as soon as it is unpinned.
#[test]
fn exhausted_trajectories_are_evicted_first_once_they_are_unpinned() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(1))).unwrap();
    for _ in 0..CAPACITY {
        insert(&store, 1, 1.0);
    }
    let [third, fourth] = [3, 4].map(|index| store.pin(&[index]).unwrap());
    assert_eq!([insert(&store, 2, 1.0).index, insert(&store, 2, 1.0).index], [0, 1]);
    drop(fourth);
    assert_eq!([insert(&store, 3, 1.0).index, insert(&store, 3, 1.0).index], [4, 2]);
    let zeroth = store.pin(&[0]).unwrap();
    drop(third);
    assert_eq!(insert(&store, 4, 1.0).index, 3);
    drop(zeroth);
    assert_eq!([insert(&store, 5, 1.0).index, insert(&store, 5, 1.0).index], [0, 1]);
}

/// A negative zero counts as zero, the lowest weight, regardless of the call that sets it.
#[test]
fn the_sign_of_a_zero_does_not_matter() {
    let store = Store::create(schema(), options(Removal::LowestWeight)).unwrap();
    let zero = insert(&store, 1, -0.0);
    let rest: Vec<Inserted> = (1..CAPACITY).map(|_| insert(&store, 2, 1.0)).collect();
    assert_eq!(store.status(zero.index).unwrap().weight.to_bits(), 0);
    assert_eq!(insert(&store, 3, 1.0).index, zero.index);
    let Inserted { index, generation } = rest[2];
    store.update_weights(&[Reweigh { index, generation, weight: -0.0 }]).unwrap();
    assert_eq!(insert(&store, 4, 1.0).index, index);
}
