//! Saves the position of a graph, and resumes from it.

use std::error::Error;
use std::sync::Arc;
use std::task::Poll;

use crate::checkpoint::{Checkpoint, GraphState};
use crate::metrics::{Metrics, Numbers};
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{ErrorKind, Flow, FlowError, Result};

/// Writes the position of the graph that ends with `pull`. Returns the operators that hold items, if there are any.
fn written<T>(pull: &mut dyn Pull<T>, metrics: &Metrics) -> Result<Result<GraphState, Vec<(String, usize)>>> {
    let mut checkpoint = Checkpoint::written();
    pull.checkpoint(&mut checkpoint)?;
    let Numbers { counters, values, timers } = metrics.numbers();
    Ok(checkpoint.into_written().map(|operators| GraphState { operators, counters, values, timers }))
}

/// Describes which operators hold items.
fn describe_held(held: &[(String, usize)]) -> String {
    let held_items = held.iter().map(|(name, items)| format!("{name} has {items}"));
    held_items.collect::<Vec<_>>().join(", ")
}

struct Checkpoints<T, F> {
    upstream: Box<dyn Pull<T>>,
    every: u64,
    /// The number of items since the last checkpoint.
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
    /// Saves, unless an operator holds items.
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
                    "the checkpoint was postponed for {} items, because operators always held items ({}); held items cannot be saved",
                    self.every,
                    describe_held(&held)
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
    /// Calls `save` with the position of the graph up to this operator, after every `every` items. The call occurs when
    /// the next item is pulled, since the previous items have been fully processed by then. The position does not
    /// include operators after this one, or other copies of the flow. Pass the state to [`restore`](Self::restore) of
    /// the same graph later, or in another process.
    ///
    /// The state contains the positions of iterator sources, the counts of operators, and the counters, values and
    /// timers of the [`Metrics`]. It contains no items: while an operator holds any, such as those of an incomplete
    /// batch, the checkpoint is delayed. The caller must save the states of functions and shards separately, and
    /// restore them before the first pull.
    ///
    /// The flow yields an [`ErrorKind::Unsaved`] error if an operator cannot be saved (prefetching threads, a source
    /// that does not implement [`Pull::checkpoint`]) or always holds items (a shuffle, overlapping windows, copies that
    /// are behind), and an [`ErrorKind::Operator`] error if `save` fails. An `every` of 0 is an [`ErrorKind::Invalid`]
    /// error at the first pull.
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
    /// // The program ends here. The last checkpoint precedes the pull of the second item.
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
            let fault = "the interval between checkpoints must be at least one item";
            return self.then_unless(Some(fault), name, |upstream| upstream);
        }
        let metrics = self.metrics.clone();
        self.then(name, |upstream, node| Checkpoints { upstream, every, since: 0, save, node, metrics })
    }

    /// Returns the position of the graph, between two pulls; see [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: an operator cannot be saved, or currently holds items.
    pub fn save(&mut self) -> Result<GraphState> {
        written(&mut *self.pull, &self.metrics)?.map_err(|held| {
            let text = format!("items that operators hold cannot be saved: {}", describe_held(&held));
            FlowError::new(ErrorKind::Unsaved, text)
        })
    }

    /// Resumes from the [saved](Self::save) position of the same graph. This method must be called before the first
    /// pull. Iterators repeat their earlier items, which are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: the state belongs to another graph. The flow is then unusable.
    pub fn restore(&mut self, state: &GraphState) -> Result<()> {
        let mut checkpoint = Checkpoint::read(state.operators.clone());
        self.pull.checkpoint(&mut checkpoint)?;
        checkpoint.finish_read()?;
        let GraphState { counters, values, timers, .. } = state.clone();
        self.metrics.set_numbers(Numbers { counters, values, timers });
        Ok(())
    }
}
