//! The numbers of sources in a graph that merges several flows.

use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::item::Source;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// Adds a number to the sources of items.
struct Renumbered<T> {
    pull: Box<dyn Pull<T>>,
    first: u32,
}

impl<T> Pull<T> for Renumbered<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let mut polled = self.pull.poll_next(turn);
        if let Poll::Ready(Some(Ok(tagged))) = &mut polled {
            tagged.source = tagged.source.map(|Source(number)| Source(number.saturating_add(self.first)));
        }
        polled
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.pull.checkpoint(checkpoint)
    }
}

impl<T: 'static> Flow<T> {
    /// Numbers the sources from `first`, and adds their count to `first`. Therefore, each source has its own number
    /// when flows are merged.
    pub(crate) fn number_sources(self, first: &mut u32) -> Flow<T> {
        let (before, sources) = (*first, self.sources);
        *first = before.saturating_add(sources);
        if before == 0 || sources == 0 {
            return self;
        }
        self.within(|pull| Renumbered { pull, first: before })
    }
}
