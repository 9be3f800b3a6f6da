//! The turns of a writer's slot (`docs/gpu-store-format.md`).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The slot has a row.
pub const HAS_ROW: u32 = 1;
/// The trajectory in the row is complete.
pub const FINISHED: u32 = 2;
/// The writer requests a row.
pub const WANTS_ROW: u32 = 4;

/// The number of columns in a word of [`Slot::answered`].
const WORD_COLUMNS: usize = 64;
/// The number of columns for which a slot has room.
pub const ANSWER_COLUMNS: usize = 1024;

/// The memory that a writer and the controller share. The fields other than `claim`, `turn`, `heartbeat` and
/// `waiting` belong to the side that has the turn.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    /// The identity of the writer, or a value that indicates that the slot is unclaimed or was left.
    pub claim: AtomicU64,
    /// Even in the writer's turn, odd in the controller's.
    pub turn: AtomicU32,
    /// A combination of [`HAS_ROW`], [`FINISHED`] and [`WANTS_ROW`].
    pub flags: AtomicU32,
    /// The row that the writer fills, within the store.
    pub row: AtomicU64,
    /// The generation of the trajectory in the row.
    pub generation: AtomicU64,
    /// The number of complete steps.
    pub steps: AtomicU32,
    /// The bits of the weight of the trajectory, a float32.
    pub weight: AtomicU32,
    /// When the writer last called, in milliseconds of the monotonic clock.
    pub heartbeat: AtomicU64,
    /// Whether a thread sleeps until the turn changes.
    pub waiting: AtomicU32,
    /// One bit for each column that the controller has written since the writer's request.
    pub answered: [AtomicU64; ANSWER_COLUMNS / WORD_COLUMNS],
}

/// The contents of a slot, for the side that has the turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotContents {
    /// A combination of [`HAS_ROW`], [`FINISHED`] and [`WANTS_ROW`].
    pub flags: u32,
    /// The row that the writer fills, within the store.
    pub row: u64,
    /// The generation of the trajectory in the row.
    pub generation: u64,
    /// The number of complete steps.
    pub steps: u32,
    /// The weight of the trajectory.
    pub weight: f32,
}

impl Slot {
    /// Returns whether it is the writer's turn.
    pub fn writers_turn(&self) -> bool {
        self.turn.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Returns whether it is the controller's turn.
    pub fn controllers_turn(&self) -> bool {
        !self.writers_turn()
    }

    /// Returns the values written by the other side. Must only be called by the side that has the turn.
    pub fn contents(&self) -> SlotContents {
        SlotContents {
            flags: self.flags.load(Ordering::Relaxed),
            row: self.row.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
            weight: f32::from_bits(self.weight.load(Ordering::Relaxed)),
        }
    }

    /// Records that the controller has written a column. Must only be called in the controller's turn.
    pub fn note_answered(&self, column: usize) {
        let word = &self.answered[column / WORD_COLUMNS];
        word.store(word.load(Ordering::Relaxed) | 1 << (column % WORD_COLUMNS), Ordering::Relaxed);
    }

    /// Returns whether the controller has written a column since the writer's last request. Must only be called in the
    /// writer's turn.
    pub fn is_answered(&self, column: usize) -> bool {
        let word = self.answered[column / WORD_COLUMNS].load(Ordering::Relaxed);
        word >> (column % WORD_COLUMNS) & 1 != 0
    }

    /// Forgets the columns of earlier answers. Must only be called in the writer's turn.
    pub fn forget_answers(&self) {
        self.answered.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Records the writer's progress and request. Must only be called in the writer's turn; the values take effect with
    /// the hand-over.
    pub fn say(&self, flags: u32, steps: u32, weight: f32) {
        self.steps.store(steps, Ordering::Relaxed);
        self.weight.store(weight.to_bits(), Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Assigns a row to the slot. Must only be called by the controller, in its turn.
    pub fn assign(&self, row: u64, generation: u64) {
        self.row.store(row, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.say(HAS_ROW, 0, 0.0);
    }

    /// Records that the controller has taken the row of a complete trajectory. Must only be called in the controller's
    /// turn.
    pub fn clear_row(&self) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags & !HAS_ROW, Ordering::Relaxed);
    }

    /// Ends the caller's turn. All of the caller's writes happen before the other side's next turn.
    pub fn hand_over(&self) {
        // Sequential consistency is stronger than the data needs. It ensures that either this side sees that the other
        // one is sleeping, or the other one sees this change before it sleeps.
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    /// The writer's last access: its slot and its row now belong to the controller.
    pub fn leave(&self, left: u64) {
        self.claim.store(left, Ordering::Release);
    }

    /// Frees the slot of a writer that has ended. Only called by the controller.
    pub fn clear(&self, nobody: u64) {
        self.say(0, 0, 0.0);
        if self.controllers_turn() {
            self.hand_over();
        }
        self.waiting.store(0, Ordering::Relaxed);
        self.claim.store(nobody, Ordering::Release);
    }
}
