//! Stores whose memory another process has damaged.

use super::{insert, options, schema};
use crate::error::ErrorKind;
use crate::store::{Reader, Removal, Store};

/// Any process with the segment may write to it, so no recorded length may lead to reads outside the table.
#[test]
fn a_damaged_length_is_detected_before_reading() {
    let store = Store::create(schema(), options(Removal::MaxTimesSampled(3))).unwrap();
    let row = insert(&store, 7, 1.0);
    let length = &store.inner.segment.lengths()[usize::try_from(row.index).unwrap()];
    length.store(5, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..2 {
        let error = store.pin(&[row.index]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(
            error.to_string().contains("trajectory 0 has a length of 5, but the limit is 4 steps"),
            "{error}"
        );
    }
    let status = store.status(row.index).unwrap();
    assert_eq!((status.pins, status.sampled), (0, 0));
    length.store(4, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(store.pin(&[row.index]).unwrap().rows()[0].length, 4);
}

/// A header with a correct checksum can still be inconsistent.
#[test]
fn inconsistent_ranks_are_reported_as_damage() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let mut header = store.inner.segment.header().clone();
    header.shape.ranks = 0;
    let file = std::fs::File::from(store.descriptor().unwrap().try_clone_to_owned().unwrap());
    std::os::unix::fs::FileExt::write_all_at(&file, &header.encode().0, 0).unwrap();
    let error = Reader::attach_descriptor(file.into(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("rank is 0, but it must be below the number of ranks, 0"), "{error}");
}
