//! Saving where a graph is, and going on from there.

use std::error::Error;
use std::sync::Arc;
use std::task::Poll;

use crate::checkpoint::{Checkpoint, GraphState};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{ErrorKind, Flow, FlowError, Result};

/// Where the graph is that `pull` ends, or the operators that hold items.
fn written<T>(pull: &mut dyn Pull<T>, metrics: &Metrics) -> Result<Result<GraphState, Vec<(String, usize)>>> {
    let mut checkpoint = Checkpoint::written();
    pull.checkpoint(&mut checkpoint)?;
    let counters = metrics.counters();
    Ok(checkpoint.into_written().map(|operators| GraphState { operators, counters }))
}

/// Says which operators hold items.
fn holding(held: &[(String, usize)]) -> String {
    let told = held.iter().map(|(name, items)| format!("{name} has {items}"));
    told.collect::<Vec<_>>().join(", ")
}

struct Checkpoints<T, F> {
    upstream: Box<dyn Pull<T>>,
    every: u64,
    /// Items since the last checkpoint.
    since: u64,
    save: F,
    node: Arc<Node>,
    metrics: Metrics,
}

impl<T, E, F> Checkpoints<T, F>
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: FnMut(&GraphState) -> Result<(), E> + Send,
{
    /// Saves, unless this is no moment for it.
    fn save(&mut self) -> Result<()> {
        let item = self.node.items();
        match written(&mut *self.upstream, &self.metrics)? {
            Ok(state) => {
                self.since = 0;
                self.node.try_call(None, item, || (self.save)(&state))
            }
            Err(held) if self.since >= self.every.saturating_mul(2) => {
                self.since = 0;
                let text = format!(
                    "for {} items there was no moment without items in the hands of operators ({}); these are not saved",
                    self.every,
                    holding(&held)
                );
                Err(FlowError::at(ErrorKind::Unsaved, self.node.place(None, item), text))
            }
            Err(_) => Ok(()),
        }
    }
}

impl<T, E, F> Pull<T> for Checkpoints<T, F>
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: FnMut(&GraphState) -> Result<(), E> + Send,
{
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if self.since >= self.every
            && let Err(error) = self.save()
        {
            self.since = 0;
            return Poll::Ready(Some(Err(error)));
        }
        let polled = self.upstream.poll_next(turn);
        self.since += u64::from(matches!(polled, Poll::Ready(Some(Ok(_)))));
        polled
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.number(&mut self.since);
        self.upstream.checkpoint(checkpoint)
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Calls `save` with where the graph up to here is, after every `every` items: when the next one is asked for, so
    /// that all that is done with the items before is done. Operators behind this one are not part of it, nor are
    /// other copies of the flow. What it gives goes into [`restore`](Self::restore) of the same graph, in another
    /// process or later.
    ///
    /// Saved are the positions of sources that are iterators, the counts of operators, and the counters of the
    /// [`Metrics`]. Not saved are items: while an operator holds some, such as a batch that is being collected, the
    /// checkpoint waits. What functions and the states of shards hold is for the caller to save beside it, and to
    /// restore before the first pull.
    ///
    /// The flow gives an [`ErrorKind::Unsaved`] error if an operator cannot be saved (threads that work ahead, a
    /// source that does not implement [`Pull::checkpoint`]), or always holds items (a shuffle, a window that overlaps
    /// the next); an [`ErrorKind::Operator`] error if `save` fails. An `every` of 0 is an [`ErrorKind::Invalid`]
    /// error of the first pull.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use relive_flow::{Flow, GraphState};
    ///
    /// let graph = || Flow::from_iter("steps", 0..8).filter(|step| step % 2 == 0).batch(2);
    /// let saved = Arc::new(Mutex::new(GraphState::default()));
    /// let file = Arc::clone(&saved);
    /// let mut flow = graph().checkpoint(1, move |state| {
    ///     *file.lock().map_err(|error| error.to_string())? = state.clone();
    ///     Ok::<_, String>(())
    /// });
    /// assert_eq!(flow.next().transpose()?, Some(vec![0, 2]));
    /// assert_eq!(flow.next().transpose()?, Some(vec![4, 6]));
    /// // The program ends here. The last checkpoint was before the second item was asked for.
    /// let mut resumed = graph();
    /// resumed.restore(&saved.lock().unwrap())?;
    /// assert_eq!(resumed.next().transpose()?, Some(vec![4, 6]));
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn checkpoint<E>(
        self,
        every: u64,
        save: impl FnMut(&GraphState) -> Result<(), E> + Send + 'static,
    ) -> Flow<T>
    where
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let name = format!("checkpoint({every})");
        if every == 0 {
            let fault = "there is at least one item between two checkpoints";
            return self.then_unless(Some(fault), name, |upstream| upstream);
        }
        let metrics = self.metrics.clone();
        self.then(name, |upstream, node| Checkpoints { upstream, every, since: 0, save, node, metrics })
    }

    /// Where the graph is, between two pulls; see [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: an operator cannot be saved, or holds items now.
    pub fn save(&mut self) -> Result<GraphState> {
        written(&mut *self.pull, &self.metrics)?.map_err(|held| {
            let text = format!("items in the hands of operators are not saved: {}", holding(&held));
            FlowError::new(ErrorKind::Unsaved, text)
        })
    }

    /// Goes on from where the same graph was when it was [saved](Self::save). Before the first pull; an iterator
    /// gives the items that it had given, and they are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: what was saved is of another graph. The flow is of no use then.
    pub fn restore(&mut self, state: &GraphState) -> Result<()> {
        let mut checkpoint = Checkpoint::read(state.operators.clone());
        self.pull.checkpoint(&mut checkpoint)?;
        checkpoint.finish_read()?;
        self.metrics.restore_counters(state.counters.clone());
        Ok(())
    }
}
