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
    for (options, text) in [
        (StoreOptions { capacity: 0, ..base.clone() }, "capacity is 0"),
        (StoreOptions { rank: 1, ..base.clone() }, "rank is 1"),
        (StoreOptions { readers: 0, ..base.clone() }, "readers is 0"),
        (StoreOptions { writers: MAX_WRITERS + 1, ..base.clone() }, "writers is 65537"),
        (StoreOptions { max_selectable: Some(0), ..base.clone() }, "max_selectable is 0"),
        (StoreOptions { max_selectable: Some(CAPACITY + 1), ..base.clone() }, "max_selectable is"),
        (StoreOptions { removal: Removal::MaxTimesSampled(0), ..base.clone() }, "MaxTimesSampled(0)"),
        (StoreOptions { capacity: 1 << 60, ..base.clone() }, "lower the capacity"),
        (tier, "there is no column \"c\""),
    ] {
        let error = Store::create(schema(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let store = Store::create(schema(), StoreOptions { rank: 1, ranks: 2, ..base }).unwrap();
    let row = insert(&store, 1, 1.0);
    assert_eq!(row.index, CAPACITY);
    assert_eq!(store.pin(&[0]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.pin(&[CAPACITY + 1]).unwrap_err().kind(), ErrorKind::NotFound);
    for weight in [f32::NAN, -1.0, f32::INFINITY] {
        let reweigh = Reweigh { index: row.index, generation: 1, weight };
        let error = store.update_weights(&[reweigh]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = store.insert(&[&[0; 6], &[0; 16]], 2, weight).unwrap_err();
        assert!(error.to_string().contains(&format!("the weight is {weight}")), "{error}");
    }
    for (columns, length) in
        [(vec![&[0; 6][..]], 2), (vec![&[0; 6], &[0; 15]], 2), (vec![&[0; 15], &[0; 40]], 5)]
    {
        assert_eq!(store.insert(&columns, length, 1.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut writing = store.begin().unwrap();
    assert!(writing.column(2).unwrap_err().to_string().contains("column 2"));
    assert!(writing.step(0, 4).unwrap_err().to_string().contains("step 4"));
    assert!(writing.step(0, 3).is_ok());
    assert!(writing.commit(0, 1.0).unwrap_err().to_string().contains("has 0 steps"));
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
