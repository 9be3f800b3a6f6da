//! The controller's record of each writer.

use super::controller::Place;

/// The controller's knowledge of the writers, whatever the slots contain.
#[derive(Debug)]
pub(crate) struct WriterSlots {
    pub(crate) slots: Vec<WriterSlot>,
    pub(crate) starved: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriterSlot {
    pub(crate) place: Option<Place>,
    /// Its request was reported and not yet given back.
    pub(crate) reported: bool,
    pub(crate) looked_ms: u64,
}

impl WriterSlots {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: vec![WriterSlot::default(); slots], starved: false }
    }
}
