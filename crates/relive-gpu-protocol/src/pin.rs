//! Pins against eviction: the later of the two operations always sees the earlier one.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RowState {
    /// The row has no trajectory.
    Free = 0,
    /// A writer has the row.
    Writing = 1,
    /// The row has a trajectory that readers can pin.
    Selectable = 2,
    /// The controller is deciding whether to evict the trajectory, or has evicted it.
    Evicting = 3,
}

/// A row's state and generation, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The state of the row.
    pub state: RowState,
    /// The number of the row's trajectory.
    pub generation: u64,
}

impl Stamp {
    /// Combines a state and a generation below 2^56.
    #[must_use]
    pub fn new(state: RowState, generation: u64) -> Self {
        Self { state, generation }
    }

    /// Reads a word of shared memory.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        let state = match word & 255 {
            0 => RowState::Free,
            1 => RowState::Writing,
            2 => RowState::Selectable,
            // No other value is ever written. A damaged value counts as evicting, so that the row is not read.
            _ => RowState::Evicting,
        };
        Self { state, generation: word >> 8 }
    }

    /// Returns the word in shared memory.
    #[must_use]
    pub fn word(self) -> u64 {
        self.generation << 8 | self.state as u64
    }
}

/// The result of an attempt to pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The row of this generation stays in place until [`unpin`].
    Held(u64),
    /// The controller is deciding whether to evict the row; the decision takes only a moment.
    Undecided,
    /// The row is not selectable.
    Refused,
}

/// Pins a row through a reader's count of it.
pub fn pin(state: &AtomicU64, count: &AtomicU32) -> Pin {
    announce([count]);
    confirm(state, count)
}

/// The first half of pinning: counts the pins of rows, each of which must then be [confirmed](confirm).
pub fn announce<'a>(counts: impl IntoIterator<Item = &'a AtomicU32>) {
    for count in counts {
        count.fetch_add(1, Ordering::Relaxed);
    }
    // Pairs with the fence in `evict`: one of the two comes first, and the later side sees everything written before
    // it.
    fence(Ordering::SeqCst);
}

/// The second half of pinning. If this does not hold the row, the count no longer includes the pin.
pub fn confirm(state: &AtomicU64, count: &AtomicU32) -> Pin {
    let stamp = Stamp::from_word(state.load(Ordering::Acquire));
    match stamp.state {
        RowState::Selectable => Pin::Held(stamp.generation),
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

/// Releases a pin. The reader's accesses to the row happen before everything that follows its eviction. In the one order
/// of all `SeqCst` operations, the release comes before the reader's check whether anyone waits for it: a controller that
/// announces its wait too late for this check sees the release in [`evict`].
pub fn unpin(count: &AtomicU32) {
    count.fetch_sub(1, Ordering::SeqCst);
}

/// Evicts a selectable row that is not pinned. If this returns `false`, the row stays selectable. Only the controller
/// calls this. Afterwards the row is in the state evicting, and belongs to the controller.
pub fn evict<'a>(state: &AtomicU64, counts: impl IntoIterator<Item = &'a AtomicU32>) -> bool {
    let stamp = Stamp::from_word(state.load(Ordering::Relaxed));
    if stamp.state != RowState::Selectable {
        return false;
    }
    state.store(Stamp::new(RowState::Evicting, stamp.generation).word(), Ordering::Release);
    fence(Ordering::SeqCst);
    let pinned = counts.into_iter().any(|count| count.load(Ordering::Acquire) != 0);
    if pinned {
        state.store(stamp.word(), Ordering::Release);
    }
    !pinned
}
