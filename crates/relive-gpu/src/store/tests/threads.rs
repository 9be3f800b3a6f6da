//! Threads that write and read at the same time.

use std::time::Duration;

use super::{insert, options, schema};
use crate::error::ErrorKind;
use crate::metrics::Eviction;
use crate::store::{Removal, Store};

#[test]
fn a_wait_for_a_row_ends_when_a_pin_is_dropped() {
    let store = Store::create(schema(), options(Removal::Fifo)).unwrap();
    let rows: Vec<u64> = (0..5).map(|byte| insert(&store, byte, 1.0).index).collect();
    let pinned = store.pin(&rows).unwrap();
    let error = store.begin_within(Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| store.begin_within(Duration::from_secs(20)).map(|writing| writing.index()));
        while store.inner.segment.releases().1.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(pinned);
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    });
    let metrics = store.metrics();
    // The second wait may find the pin released before it sleeps.
    assert!(metrics.waits == 1 || metrics.waits == 2, "{metrics:?}");
    assert_eq!(metrics.evictions[0], (Eviction::NoFree, 1));
    assert_eq!(metrics.ages.iter().sum::<u64>(), 5);
}

/// Readers that pin as fast as they can never see a row change while it is pinned.
#[test]
fn pinned_rows_never_change() {
    let store = Store::create(schema(), options(Removal::Random)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let (pinned, _) = store.reader().pin_present(&[0, 1, 2, 3]).unwrap();
                    for row in 0..pinned.rows().len() {
                        let [a, b] = [0, 1].map(|column| pinned.bytes(row, column).unwrap());
                        assert!(a.iter().chain(b).all(|&byte| byte == a[0]), "{a:?} {b:?}");
                    }
                }
            });
        }
        for number in 0..20_000_u32 {
            insert(&store, number.to_le_bytes()[0], 1.0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
