//! The mutable state of a chunk in one word: its holder, the location of its frame, and the store that wrote it.

use std::sync::atomic::{AtomicU64, Ordering};

/// | Bits | Meaning |
/// |---|---|
/// | 0..29 | items of the holder that refer to the chunk |
/// | 29..53 | number of the holder's account; 0: none; all ones: several, which are in the ledger's list |
/// | 53 | read since the last check of the disk tier |
/// | 54 | the frame is not in this process's own memory |
/// | 55 | the frame has a place outside that memory, where it is or to which it can return; never cleared |
/// | 56..64 | tag of the store that has written the chunk; 0: none |
#[derive(Debug, Default)]
pub(crate) struct ChunkState(AtomicU64);

/// The state of a chunk at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

const USES_BITS: u32 = 29;
const HOLDER_BITS: u32 = 24;
const MAX_USES: u64 = (1 << USES_BITS) - 1;
const TOUCHED: u64 = 1 << (USES_BITS + HOLDER_BITS);
const MOVED: u64 = TOUCHED << 1;
const STORED: u64 = MOVED << 1;
const TAG_SHIFT: u32 = USES_BITS + HOLDER_BITS + 3;
const HELD_MASK: u64 = TOUCHED - 1;

/// Several accounts hold the chunk.
pub(crate) const SEVERAL: u32 = (1 << HOLDER_BITS) - 1;

impl Word {
    pub(crate) fn uses(self) -> u64 {
        self.0 & MAX_USES
    }

    pub(crate) fn holder(self) -> u32 {
        u32::try_from((self.0 & HELD_MASK) >> USES_BITS).unwrap_or(SEVERAL)
    }

    pub(crate) fn is_moved(self) -> bool {
        self.0 & MOVED != 0
    }

    pub(crate) fn is_stored(self) -> bool {
        self.0 & STORED != 0
    }

    fn with_holder(self, holder: u32, uses: u64) -> Self {
        let holder = if uses == 0 && holder != SEVERAL { 0 } else { holder };
        Self((self.0 & !HELD_MASK) | (u64::from(holder) << USES_BITS) | uses.min(MAX_USES))
    }
}

impl ChunkState {
    pub(crate) fn get(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Changes the holder and the number of uses to the result of `change`, unless that is `None`. Returns the previous
    /// word.
    pub(crate) fn update_holder(&self, change: impl Fn(Word) -> Option<(u32, u64)>) -> Result<Word, Word> {
        let update = |word: u64| {
            let word = Word(word);
            change(word).map(|(holder, uses)| word.with_holder(holder, uses).0)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).map(Word).map_err(Word)
    }

    /// Records whether the frame is out of memory. Returns the previous word.
    pub(crate) fn set_moved(&self, is_moved: bool) -> Word {
        Word(match is_moved {
            true => self.0.fetch_or(MOVED, Ordering::AcqRel),
            false => self.0.fetch_and(!MOVED, Ordering::AcqRel),
        })
    }

    /// Records that the frame has a copy outside memory.
    pub(crate) fn set_stored(&self) {
        self.0.fetch_or(STORED, Ordering::AcqRel);
    }

    /// Records that the frame was read. Writes to the word at most once between two checks by the disk tier.
    pub(crate) fn touch(&self) {
        if self.0.load(Ordering::Relaxed) & TOUCHED == 0 {
            self.0.fetch_or(TOUCHED, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_touched(&self) -> bool {
        self.0.fetch_and(!TOUCHED, Ordering::Relaxed) & TOUCHED != 0
    }

    pub(crate) fn store_tag(&self) -> u8 {
        u8::try_from(self.0.load(Ordering::Acquire) >> TAG_SHIFT).unwrap_or(0)
    }

    pub(crate) fn set_store_tag(&self, tag: u8) {
        let set = |word: u64| Some((word & !(0xff << TAG_SHIFT)) | (u64::from(tag) << TAG_SHIFT));
        // The closure never returns `None`.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
    }
}

/// The properties of a chunk that accounts use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    /// Its mutable state.
    pub(crate) state: &'a ChunkState,
    /// The chunk's address. Unlike the chunk's key, it cannot be chosen by a client.
    pub(crate) address: usize,
    /// The number of bytes in the chunk's frame.
    pub(crate) encoded_bytes: u64,
    /// The number of bytes in the chunk's content once decoded.
    pub(crate) raw_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_touch_each_other() {
        let state = ChunkState::default();
        state.set_store_tag(0xa5);
        state.touch();
        state.update_holder(|_| Some((SEVERAL - 1, MAX_USES))).unwrap();
        assert!(!state.set_moved(true).is_moved() && !state.get().is_stored());
        state.set_stored();
        let word = state.get();
        assert_eq!((word.holder(), word.uses(), word.is_moved()), (SEVERAL - 1, MAX_USES, true));
        assert_eq!((state.store_tag(), state.take_touched(), state.take_touched()), (0xa5, true, false));
        state.update_holder(|word| Some((word.holder(), 0))).unwrap();
        assert_eq!(
            (state.get().holder(), state.store_tag()),
            (0, 0xa5),
            "a chunk that is not in use has no holder"
        );
        state.set_store_tag(1);
        assert_eq!((state.store_tag(), state.get().is_moved()), (1, true));
        assert!(state.set_moved(false).is_moved());
        let word = state.get();
        assert_eq!((state.store_tag(), word.is_moved(), word.is_stored()), (1, false, true));
    }
}
