//! Every interleaving of pins and evictions, and of a writer's slot with the controller. Run with `RUSTFLAGS="--cfg
//! relive_loom"`.
#![cfg(relive_loom)]
#![expect(
    unsafe_code,
    reason = "loom's cells are read and written by address; that it watches them is what the models are for"
)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use relive_gpu_protocol::pin::{Pin, RowState, Stamp, announce, confirm, evict, pin, unpin};
use relive_gpu_protocol::slot::{FINISHED, HAS_ROW, Slot, WANTS_ROW};

/// Bytes whose accesses are checked by loom: two concurrent accesses fail the test.
struct Bytes(UnsafeCell<u64>);

// SAFETY: loom reports every pair of accesses that the protocol does not separate.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn get(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|bytes| unsafe { *bytes })
    }

    fn set(&self, value: u64) {
        // SAFETY: as above.
        self.0.with_mut(|bytes| unsafe { *bytes = value });
    }
}

/// A row: its state, two readers' pins of it, and its bytes.
struct Row {
    state: AtomicU64,
    pins: [AtomicU32; 2],
    bytes: Bytes,
}

/// A reader that has pinned a row sees it as it was committed, regardless of the controller's actions.
#[test]
fn a_pinned_row_is_not_rewritten() {
    loom::model(|| {
        let row = Arc::new(Row {
            state: AtomicU64::new(Stamp::new(RowState::Selectable, 1).word()),
            pins: [AtomicU32::new(0), AtomicU32::new(0)],
            bytes: Bytes::new(1),
        });
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let row = Arc::clone(&row);
                thread::spawn(move || {
                    if let Pin::Held(generation) = pin(&row.state, &row.pins[reader]) {
                        let seen = row.bytes.get();
                        assert_eq!(seen, generation);
                        unpin(&row.pins[reader]);
                    }
                })
            })
            .collect();
        if evict(&row.state, &row.pins) {
            row.bytes.set(2);
            row.state.store(Stamp::new(RowState::Selectable, 2).word(), Ordering::SeqCst);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(row.pins.iter().all(|count| count.load(Ordering::Relaxed) == 0));
        let stamp = Stamp::from_word(row.state.load(Ordering::Relaxed));
        assert_eq!(stamp.state, RowState::Selectable);
    });
}

/// The same test for rows whose pins are announced together.
#[test]
fn rows_pinned_together_are_not_rewritten() {
    loom::model(|| {
        let row = || Row {
            state: AtomicU64::new(Stamp::new(RowState::Selectable, 1).word()),
            pins: [AtomicU32::new(0), AtomicU32::new(0)],
            bytes: Bytes::new(1),
        };
        let rows = Arc::new([row(), row()]);
        let reader = {
            let rows = Arc::clone(&rows);
            thread::spawn(move || {
                announce(rows.iter().map(|row| &row.pins[0]));
                for row in rows.iter() {
                    if let Pin::Held(generation) = confirm(&row.state, &row.pins[0]) {
                        assert_eq!(row.bytes.get(), generation);
                        unpin(&row.pins[0]);
                    }
                }
            })
        };
        for row in rows.iter() {
            if evict(&row.state, &row.pins) {
                row.bytes.set(2);
                row.state.store(Stamp::new(RowState::Selectable, 2).word(), Ordering::SeqCst);
            }
        }
        reader.join().unwrap();
        assert!(rows.iter().all(|row| row.pins[0].load(Ordering::Relaxed) == 0));
    });
}

fn slot() -> Slot {
    let half = || AtomicU32::new(0);
    Slot {
        claim: AtomicU64::new(7),
        turn: half(),
        flags: half(),
        row: AtomicU64::new(0),
        generation: AtomicU64::new(0),
        steps: half(),
        weight: half(),
        heartbeat: AtomicU64::new(0),
        waiting: half(),
        answered: std::array::from_fn(|_| AtomicU64::new(0)),
    }
}

/// A slot and the bytes of its row: the side that has the turn owns the bytes.
struct Shared {
    slot: Slot,
    bytes: Bytes,
}

const LEFT: u64 = u64::MAX;

/// The sides take turns. Each side sees the other's writes, and the two sides never access the bytes at the same time.
#[test]
fn a_trajectory_is_handed_over_atomically() {
    loom::model(|| {
        let shared = Arc::new(Shared { slot: slot(), bytes: Bytes::new(0) });
        let writer = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            writer.slot.say(WANTS_ROW, 0, 0.0);
            writer.slot.hand_over();
            while !writer.slot.writers_turn() {
                thread::yield_now();
            }
            let contents = writer.slot.contents();
            assert_eq!(
                (contents.flags, contents.row, contents.generation, contents.steps),
                (HAS_ROW, 3, 9, 0)
            );
            writer.bytes.set(42);
            writer.slot.say(HAS_ROW | FINISHED, 5, 0.5);
            writer.slot.hand_over();
            writer.slot.leave(LEFT);
        });
        while !shared.slot.controllers_turn() {
            thread::yield_now();
        }
        assert_eq!(shared.slot.contents().flags, WANTS_ROW);
        shared.bytes.set(1);
        shared.slot.assign(3, 9);
        shared.slot.hand_over();
        while !shared.slot.controllers_turn() {
            thread::yield_now();
        }
        let contents = shared.slot.contents();
        assert_eq!((contents.flags, contents.steps, contents.weight), (HAS_ROW | FINISHED, 5, 0.5));
        assert_eq!(shared.bytes.get(), 42);
        writer.join().unwrap();
        shared.slot.clear(0);
        assert!(shared.slot.writers_turn());
    });
}

/// A writer may leave at any time. Its slot and row then belong to the controller, and a finished trajectory counts
/// only if it was handed over.
#[test]
fn slots_of_an_ended_writer_return_to_the_controller() {
    loom::model(|| {
        let shared = Arc::new(Shared { slot: slot(), bytes: Bytes::new(0) });
        shared.slot.say(HAS_ROW, 0, 0.0);
        let writer = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            writer.bytes.set(42);
            writer.slot.say(HAS_ROW | FINISHED, 5, 1.0);
            writer.slot.leave(LEFT);
        });
        while shared.slot.claim.load(Ordering::Acquire) != LEFT {
            thread::yield_now();
        }
        assert!(!shared.slot.controllers_turn(), "it was not handed over");
        shared.bytes.set(0);
        shared.slot.clear(0);
        assert_eq!(shared.slot.contents().flags, 0);
        writer.join().unwrap();
    });
}
