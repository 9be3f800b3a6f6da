//! Pins against eviction: whichever of the two comes later sees the other.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What a row is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RowState {
    Free = 0,
    Writing = 1,
    Selectable = 2,
    Evicting = 3,
}

/// A row's state and generation, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) state: RowState,
    pub(crate) generation: u64,
}

impl Stamp {
    pub(crate) fn new(state: RowState, generation: u64) -> Self {
        Self { state, generation }
    }

    pub(crate) fn from_word(word: u64) -> Self {
        let state = match word & 255 {
            0 => RowState::Free,
            1 => RowState::Writing,
            2 => RowState::Selectable,
            // No other is ever written; a damaged one is nobody's to read.
            _ => RowState::Evicting,
        };
        Self { state, generation: word >> 8 }
    }

    pub(crate) fn word(self) -> u64 {
        self.generation << 8 | self.state as u64
    }
}

/// What an attempt to pin has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// The row of this generation stays as it is until [`unpin`].
    Held(u64),
    /// The controller is about to decide whether the row goes; the answer comes at once.
    Undecided,
    /// The row is not selectable.
    Refused,
}

/// Pins a row by a reader's count of it.
pub(crate) fn pin(state: &AtomicU64, count: &AtomicU32) -> Pin {
    count.fetch_add(1, Ordering::SeqCst);
    let stamp = Stamp::from_word(state.load(Ordering::SeqCst));
    match stamp.state {
        RowState::Selectable => return Pin::Held(stamp.generation),
        RowState::Evicting => {
            unpin(count);
            Pin::Undecided
        }
        RowState::Free | RowState::Writing => {
            unpin(count);
            Pin::Refused
        }
    }
}

/// Takes a pin back. What the reader has read happens before whatever comes after an eviction.
pub(crate) fn unpin(count: &AtomicU32) {
    count.fetch_sub(1, Ordering::Release);
}

/// Evicts a selectable row that nobody has pinned; `false` leaves it selectable. Only the controller calls this. The row is then
/// in the state evicting, and nobody else's.
pub(crate) fn evict<'a>(state: &AtomicU64, counts: impl IntoIterator<Item = &'a AtomicU32>) -> bool {
    let stamp = Stamp::from_word(state.load(Ordering::Relaxed));
    if stamp.state != RowState::Selectable {
        return false;
    }
    // A swap and not a store: on every processor it comes before the loads below for those who pin.
    state.swap(Stamp::new(RowState::Evicting, stamp.generation).word(), Ordering::SeqCst);
    let pinned = counts.into_iter().any(|count| count.load(Ordering::SeqCst) != 0);
    if pinned {
        state.store(stamp.word(), Ordering::SeqCst);
    }
    !pinned
}
