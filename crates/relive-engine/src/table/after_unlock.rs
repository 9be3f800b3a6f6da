//! The part of a change's work that is done after the table's lock has been released.

use std::sync::Arc;
use std::task::Waker;

use relive_table::{Effect, Freed, NewItem};

use super::confirmations::{Confirmations, Outcome};

/// References to drop, outcomes to report, tasks to wake, and inserts that extensions requested in other tables.
#[derive(Debug, Default)]
pub(crate) struct AfterUnlock {
    pub(crate) freed: Freed,
    /// The number of encoded bytes to which new items refer.
    pub(crate) added_bytes: u64,
    pub(crate) abandoned: Vec<NewItem>,
    pub(crate) settled: Vec<(Arc<Confirmations>, Outcome)>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) effects: Vec<Effect>,
}

impl AfterUnlock {
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { freed, added_bytes, abandoned, settled, wakers, effects } = self;
        let is_quiet = settled.is_empty() && wakers.is_empty() && effects.is_empty();
        is_quiet && freed.is_empty() && *added_bytes == 0 && abandoned.is_empty()
    }
}

/// Reports outcomes to each stream, with one lock and one wake-up per run of outcomes for the same stream.
pub(super) fn report(settled: Vec<(Arc<Confirmations>, Outcome)>) {
    let mut settled = settled.into_iter().peekable();
    while let Some((stream, first)) = settled.next() {
        let mut outcomes = vec![first];
        while let Some((_, next)) = settled.next_if(|(other, _)| Arc::ptr_eq(other, &stream)) {
            outcomes.push(next);
        }
        if let Some(waker) = stream.settle(outcomes) {
            waker.wake();
        }
    }
}
