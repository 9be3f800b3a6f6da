//! Calls that a store refuses without changing anything.

use super::{CAPACITY, insert, options, schema};
use crate::error::ErrorKind;
use crate::memory::Tier;
use crate::store::{MAX_WRITERS, Removal, Reweigh, Store, StoreOptions};

#[test]
fn invalid_store_options_are_refused() {
    let base = options(Removal::Fifo);
    let mut tier = base.clone();
    tier.tiers.insert("c".into(), Tier::Host);
    for options in [
        StoreOptions { capacity: 0, ..base.clone() },
        StoreOptions { rank: 1, ..base.clone() },
        StoreOptions { readers: 0, ..base.clone() },
        StoreOptions { writers: MAX_WRITERS + 1, ..base.clone() },
        StoreOptions { max_selectable: Some(0), ..base.clone() },
        StoreOptions { max_selectable: Some(CAPACITY + 1), ..base.clone() },
        StoreOptions { removal: Removal::MaxTimesSampled(0), ..base.clone() },
        StoreOptions { capacity: 1 << 60, ..base.clone() },
        tier,
    ] {
        assert!(Store::create(schema(), options).is_err());
    }
    let store = Store::create(schema(), StoreOptions { rank: 1, ranks: 2, ..base }).unwrap();
    let row = insert(&store, 1, 1.0);
    assert_eq!(row.index, CAPACITY);
    assert_eq!(store.pin(&[0]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.pin(&[CAPACITY + 1]).unwrap_err().kind(), ErrorKind::NotFound);
    for weight in [f32::NAN, -1.0, f32::INFINITY] {
        assert!(store.update_weights(&[Reweigh { index: row.index, generation: 1, weight }]).is_err());
        assert!(store.insert(&[&[0; 6], &[0; 16]], 2, weight).is_err());
    }
    for (columns, length) in
        [(vec![&[0; 6][..]], 2), (vec![&[0; 6], &[0; 15]], 2), (vec![&[0; 15], &[0; 40]], 5)]
    {
        assert_eq!(store.insert(&columns, length, 1.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut writing = store.begin().unwrap();
    assert!(writing.column(2).is_err() && writing.step(0, 4).is_err() && writing.step(0, 3).is_ok());
    assert!(writing.commit(0, 1.0).is_err());
    assert_eq!((store.len(), store.free()), (1, CAPACITY - 1));
}

/// The room counts neither rows that are being written nor rows beyond the limit.
#[test]
fn room_is_what_can_be_inserted_without_an_eviction() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let writing = store.begin().unwrap();
    assert_eq!(store.room(), CAPACITY - 1);
    drop(writing);
    assert_eq!(store.room(), CAPACITY);
    let limited = StoreOptions { max_selectable: Some(2), ..options(Removal::Fifo) };
    let store = Store::create(schema(), limited).unwrap();
    for room in [2, 1, 0] {
        assert_eq!(store.room(), room);
        insert(&store, 1, 1.0);
    }
    assert_eq!((store.room(), store.len()), (0, 2));
}

/// Trajectories that are held can be read, but are not counted as sampled.
#[test]
fn holding_does_not_use_up_samples() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(1))).unwrap();
    let index = insert(&store, 1, 1.0).index;
    for _ in 0..3 {
        assert_eq!(store.reader().hold_each(&[index, index]).unwrap().rows().len(), 2);
    }
    assert_eq!((store.status(index).unwrap().sampled, store.status(index).unwrap().weight), (0, 1.0));
    assert_eq!(store.reader().hold_each(&[index + 1]).unwrap_err().kind(), ErrorKind::NotFound);
}

/// A refused insert evicts nothing, not even from a full store.
#[test]
fn a_trajectory_that_does_not_fit_changes_nothing() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    for _ in 0..CAPACITY {
        store.insert(&[&[1; 3], &[1; 8]], 1, 1.0).unwrap();
    }
    let refused: [(&[&[u8]], u64, f32); 5] = [
        (&[&[1; 3]], 1, 1.0),
        (&[&[1; 4], &[1; 8]], 1, 1.0),
        (&[&[1; 3], &[1; 8]], 0, 1.0),
        (&[&[1; 15], &[1; 40]], 5, 1.0),
        (&[&[1; 3], &[1; 8]], 1, f32::NAN),
    ];
    for (columns, length, weight) in refused {
        assert_eq!(store.insert(columns, length, weight).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(
        (store.len(), store.metrics().evictions.iter().map(|(_, count)| count).sum::<u64>()),
        (CAPACITY, 0)
    );
    assert!((0..CAPACITY).all(|index| store.status(index).unwrap().generation == 1));
}
