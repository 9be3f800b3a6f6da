//! The turns of a writer's slot (`docs/gpu-store-format.md`).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The slot has a row.
pub(crate) const HAS_ROW: u32 = 1;
/// The trajectory in the row is complete.
pub(crate) const FINISHED: u32 = 2;
/// The writer requests a row.
pub(crate) const WANTS_ROW: u32 = 4;

/// The number of columns in a word of [`Slot::answered`].
const WORD_COLUMNS: usize = 64;
/// The number of columns for which a slot has room.
pub(crate) const ANSWER_COLUMNS: usize = 1024;

/// The memory that a writer and the controller share. The fields other than `claim`, `turn`, `heartbeat` and
/// `waiting` belong to the side that has the turn.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) claim: AtomicU64,
    pub(crate) turn: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) row: AtomicU64,
    pub(crate) generation: AtomicU64,
    pub(crate) steps: AtomicU32,
    pub(crate) weight: AtomicU32,
    pub(crate) heartbeat: AtomicU64,
    pub(crate) waiting: AtomicU32,
    /// One bit for each column that the controller has written since the writer's request.
    pub(crate) answered: [AtomicU64; ANSWER_COLUMNS / WORD_COLUMNS],
}

/// The contents of a slot, for the side that has the turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotContents {
    pub(crate) flags: u32,
    pub(crate) row: u64,
    pub(crate) generation: u64,
    pub(crate) steps: u32,
    pub(crate) weight: f32,
}

impl Slot {
    /// Returns whether it is the writer's turn.
    pub(crate) fn writers_turn(&self) -> bool {
        self.turn.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Returns whether it is the controller's turn.
    pub(crate) fn controllers_turn(&self) -> bool {
        !self.writers_turn()
    }

    /// Returns the values written by the other side. Must only be called by the side that has the turn.
    pub(crate) fn contents(&self) -> SlotContents {
        SlotContents {
            flags: self.flags.load(Ordering::Relaxed),
            row: self.row.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
            weight: f32::from_bits(self.weight.load(Ordering::Relaxed)),
        }
    }

    /// Records that the controller has written a column. Must only be called in the controller's turn.
    pub(crate) fn note_answered(&self, column: usize) {
        let word = &self.answered[column / WORD_COLUMNS];
        word.store(word.load(Ordering::Relaxed) | 1 << (column % WORD_COLUMNS), Ordering::Relaxed);
    }

    /// Returns whether the controller has written a column since the writer's last request. Must only be called in the
    /// writer's turn.
    pub(crate) fn is_answered(&self, column: usize) -> bool {
        let word = self.answered[column / WORD_COLUMNS].load(Ordering::Relaxed);
        word >> (column % WORD_COLUMNS) & 1 != 0
    }

    /// Forgets the columns of earlier answers. Must only be called in the writer's turn.
    pub(crate) fn forget_answers(&self) {
        self.answered.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Records the writer's progress and request. Must only be called in the writer's turn; the values take effect with
    /// the hand-over.
    pub(crate) fn say(&self, flags: u32, steps: u32, weight: f32) {
        self.steps.store(steps, Ordering::Relaxed);
        self.weight.store(weight.to_bits(), Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Assigns a row to the slot. Must only be called by the controller, in its turn.
    pub(crate) fn assign(&self, row: u64, generation: u64) {
        self.row.store(row, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.say(HAS_ROW, 0, 0.0);
    }

    /// Records that the controller has taken the row of a complete trajectory. Must only be called in the controller's
    /// turn.
    pub(crate) fn clear_row(&self) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags & !HAS_ROW, Ordering::Relaxed);
    }

    /// Ends the caller's turn. All of the caller's writes happen before the other side's next turn.
    pub(crate) fn hand_over(&self) {
        // Sequential consistency is stronger than the data needs. It ensures that either this side sees that the other
        // one is sleeping, or the other one sees this change before it sleeps.
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    /// The writer's last access: its slot and its row now belong to the controller.
    pub(crate) fn leave(&self, left: u64) {
        self.claim.store(left, Ordering::Release);
    }

    /// Frees the slot of a writer that has ended. Only called by the controller.
    pub(crate) fn clear(&self, nobody: u64) {
        self.say(0, 0, 0.0);
        if self.controllers_turn() {
            self.hand_over();
        }
        self.waiting.store(0, Ordering::Relaxed);
        self.claim.store(nobody, Ordering::Release);
    }
}
