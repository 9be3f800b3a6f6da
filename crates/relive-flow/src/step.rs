//! Runs a graph step by step.

use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::graph::operators;
use crate::pull::Stop;
use crate::{ErrorKind, Flow, FlowError, Result};

/// The result of a pull without waiting.
#[derive(Debug, PartialEq, Eq)]
pub enum Stepped<T> {
    /// An item has arrived.
    Item(T),
    /// No item is available yet.
    Waiting,
    /// The operator at which [`Flow::step_to`] stops has produced an item or an error, which was not passed on.
    Stopped,
    /// There are no more items.
    End,
}

impl<T: 'static> Flow<T> {
    /// Pulls once without waiting, to run a graph step by step.
    ///
    /// # Errors
    /// Errors of the operators.
    pub fn step(&mut self) -> Result<Stepped<T>> {
        self.step_until(Stop::Never)
    }

    /// Pulls once without waiting, and stops as soon as an operator with the given name has produced an item or an
    /// error, before the next operator receives it. The next pull of any kind continues from there, and has the same
    /// result as without the stop. The pull stops at each of several consecutive operators with the same name;
    /// [`named`](Self::named) can distinguish them. It does not stop at operators in other threads.
    ///
    /// ```
    /// use relive_flow::{Flow, Stepped};
    ///
    /// let mut flow = Flow::from_iter("numbers", 1..4).for_each(|number| number * 2).named("double").batch(2);
    /// assert_eq!(flow.step_to("double")?, Stepped::Stopped);
    /// assert_eq!(flow.step_to("double")?, Stepped::Stopped);
    /// assert_eq!(flow.show(), "\
    /// 0  numbers            2 items
    /// 1  double      ← 0    2 items
    /// 2  batch(2)    ← 1    0 items
    /// ");
    /// assert_eq!(flow.step_to("double")?, Stepped::Item(vec![2, 4]));
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no operator with this name; errors of the operators before it.
    pub fn step_to(&mut self, operator: &str) -> Result<Stepped<T>> {
        let known = operators(&self.node);
        let is_known = known.iter().any(|one| *one.name() == *operator || one.has_unstarted_shards());
        if !is_known {
            let names: Vec<String> = known.iter().map(|one| format!("`{}`", one.name())).collect();
            let text = format!("the graph has no operator `{operator}`; it has {}", names.join(", "));
            return Err(FlowError::new(ErrorKind::Invalid, text));
        }
        self.step_until(Stop::At(operator))
    }

    fn step_until(&mut self, stop: Stop<'_>) -> Result<Stepped<T>> {
        Ok(match self.poll_to(stop) {
            (Poll::Pending, true) => Stepped::Stopped,
            (Poll::Pending, false) => Stepped::Waiting,
            (Poll::Ready(None), _) => Stepped::End,
            (Poll::Ready(Some(item)), _) => Stepped::Item(item?.item),
        })
    }

    /// Returns the operators that currently hold items, between two pulls, with the number of items: incomplete lists,
    /// buffered items, items that are waiting for another copy of a flow, and items kept by a stop.
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: an operator does not report its items, as for [`save`](Self::save).
    pub fn held(&mut self) -> Result<Vec<(String, usize)>> {
        let mut checkpoint = Checkpoint::written();
        self.pull.checkpoint(&mut checkpoint)?;
        Ok(checkpoint.into_written().err().unwrap_or_default())
    }
}
