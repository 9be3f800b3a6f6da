//! Looking into a graph step by step.

use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::graph::operators;
use crate::pull::Stop;
use crate::{ErrorKind, Flow, FlowError, Result};

/// What one pull without waiting gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Stepped<T> {
    /// An item.
    Item(T),
    /// Nothing yet.
    Waiting,
    /// The operator that [`Flow::step_to`] stops at has made an item or an error, which has not gone on.
    Stopped,
    /// There are no more items.
    End,
}

impl<T: 'static> Flow<T> {
    /// Pulls once, and waits for nothing: for looking into a graph step by step.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn step(&mut self) -> Result<Stepped<T>> {
        self.step_until(Stop::Never)
    }

    /// Pulls once, waits for nothing, and stops as soon as an operator of this name has made an item or an error,
    /// before the next operator gets it. The next pull of any kind goes on from there, and gives what it would have
    /// given without the stop. Operators of one name that follow each other are stopped at one by one;
    /// [`named`](Self::named) tells them apart. Operators in other threads are not stopped at.
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
    /// [`ErrorKind::Invalid`]: there is no operator of this name; those of the operators before.
    pub fn step_to(&mut self, operator: &str) -> Result<Stepped<T>> {
        let known = operators(&self.node);
        let is_known = known.iter().any(|one| *one.name() == *operator || one.has_shards_to_begin());
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

    /// The operators that hold items now, between two pulls, and how many: lists that are being collected, what waits
    /// in a buffer or for another copy of a flow, what a stop has kept.
    ///
    /// # Errors
    /// [`ErrorKind::Unsaved`]: an operator does not say, as for [`save`](Self::save).
    pub fn held(&mut self) -> Result<Vec<(String, usize)>> {
        let mut checkpoint = Checkpoint::written();
        self.pull.checkpoint(&mut checkpoint)?;
        Ok(checkpoint.into_written().err().unwrap_or_default())
    }
}
