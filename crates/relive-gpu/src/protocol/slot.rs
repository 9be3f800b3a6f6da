//! The turns of a writer's slot (`docs/gpu-store-format.md`).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The slot has a row.
pub(crate) const HAS_ROW: u32 = 1;
/// The trajectory in the row is finished.
pub(crate) const FINISHED: u32 = 2;
/// The writer wants a row.
pub(crate) const WANTS_ROW: u32 = 4;

/// What a writer and the controller share. Fields other than the first two and the last two belong to who has the turn.
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
}

/// What a slot says when its reader has the turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) flags: u32,
    pub(crate) row: u64,
    pub(crate) generation: u64,
    pub(crate) steps: u32,
    pub(crate) weight: f32,
}

impl Slot {
    /// The turn's number if it is the writer's.
    pub(crate) fn writers_turn(&self) -> bool {
        self.turn.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Whether the turn is the controller's.
    pub(crate) fn controllers_turn(&self) -> bool {
        !self.writers_turn()
    }

    /// What the other side has written. Only for who has the turn.
    pub(crate) fn said(&self) -> Said {
        Said {
            flags: self.flags.load(Ordering::Relaxed),
            row: self.row.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
            weight: f32::from_bits(self.weight.load(Ordering::Relaxed)),
        }
    }

    /// The writer says how far it is and what it wants. Only in its turn; what counts is the hand-over.
    pub(crate) fn say(&self, flags: u32, steps: u32, weight: f32) {
        self.steps.store(steps, Ordering::Relaxed);
        self.weight.store(weight.to_bits(), Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// The controller puts a row into the slot. Only in its turn.
    pub(crate) fn assign(&self, row: u64, generation: u64) {
        self.row.store(row, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.say(HAS_ROW, 0, 0.0);
    }

    /// The controller has taken the row of a finished trajectory. Only in its turn.
    pub(crate) fn clear_row(&self) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags & !HAS_ROW, Ordering::Relaxed);
    }

    /// Ends the turn of who has it. All that it wrote happens before the other side's next turn.
    pub(crate) fn hand_over(&self) {
        // Sequentially consistent beyond what the data need: who looks afterwards whether the other side sleeps is seen by it, or sees it.
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    /// The writer's last access: whatever it had is the controller's.
    pub(crate) fn leave(&self, left: u64) {
        self.claim.store(left, Ordering::Release);
    }

    /// The controller makes the slot of a writer that is no more free for another one.
    pub(crate) fn clear(&self, nobody: u64) {
        self.say(0, 0, 0.0);
        if self.controllers_turn() {
            self.hand_over();
        }
        self.waiting.store(0, Ordering::Relaxed);
        self.claim.store(nobody, Ordering::Release);
    }
}
