//! Two flows in a fixed ratio of items.

use std::sync::Arc;
use std::task::Poll;

use crate::checkpoint::Checkpoint;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// The number of sampled items per inserted item, and the tolerance.
///
/// With `i` items inserted and `s` sampled, the deviation is `(i - min_inserted) · samples_per_insert - s`. The first
/// `min_inserted` inserts are always allowed, and samples are allowed only after these inserts. From then on, an insert
/// or a sample is allowed if it keeps the deviation within `tolerance`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The number of samples per insert, above 0.
    pub samples_per_insert: f64,
    /// The number of items that are inserted before the first sample.
    pub min_inserted: u64,
    /// The allowed deviation in samples, at least the larger of 1 and `samples_per_insert`. With a smaller tolerance,
    /// one of the flows could block forever.
    pub tolerance: f64,
}

impl Ratio {
    /// Returns the ratio with the smallest tolerance.
    #[must_use]
    pub fn exact(samples_per_insert: f64, min_inserted: u64) -> Self {
        Self { samples_per_insert, min_inserted, tolerance: samples_per_insert.max(1.0) }
    }

    fn fault(&self) -> Option<String> {
        let Self { samples_per_insert, tolerance, .. } = *self;
        if !samples_per_insert.is_finite() || samples_per_insert <= 0.0 {
            return Some(format!("samples_per_insert must be a number above 0, got {samples_per_insert}"));
        }
        let least = samples_per_insert.max(1.0);
        (!tolerance.is_finite() || tolerance < least)
            .then(|| format!("the tolerance must be at least {least}, got {tolerance}"))
    }
}

struct RatioState<T> {
    ratio: Ratio,
    inserts: Side<T>,
    samples: Side<T>,
}

struct Side<T> {
    pull: Box<dyn Pull<T>>,
    count: u64,
    is_over: bool,
}

impl<T> Side<T> {
    fn new(flow: Flow<T>) -> Self {
        Self { pull: flow.pull, count: 0, is_over: false }
    }

    /// Returns the flow's next item, or `None` if the flow has ended or no item is available yet.
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Option<Polled<T>> {
        match self.pull.poll_next(turn) {
            Poll::Ready(Some(item)) => {
                self.count += u64::from(item.is_ok());
                Some(Poll::Ready(Some(item)))
            }
            Poll::Ready(None) => {
                self.is_over = true;
                None
            }
            Poll::Pending => None,
        }
    }
}

impl<T> RatioState<T> {
    /// Returns the number of further samples that make the ratio exact.
    fn due(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts of items stay far below 2^52")]
        let (inserted, sampled) =
            (self.inserts.count as f64 - self.ratio.min_inserted as f64, self.samples.count as f64);
        inserted * self.ratio.samples_per_insert - sampled
    }

    fn may_insert(&self) -> bool {
        let is_first = self.inserts.count < self.ratio.min_inserted;
        !self.inserts.is_over
            && (is_first || self.due() + self.ratio.samples_per_insert <= self.ratio.tolerance)
    }

    fn may_sample(&self) -> bool {
        let has_enough = self.inserts.count >= self.ratio.min_inserted;
        !self.samples.is_over && has_enough && self.due() - 1.0 >= -self.ratio.tolerance
    }
}

impl<T> Pull<T> for RatioState<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        // If both flows are ready, due samples are pulled first, which keeps the ratio as exact as possible.
        let samples_first = self.due() >= 1.0;
        for is_sample in [samples_first, !samples_first] {
            let may = if is_sample { self.may_sample() } else { self.may_insert() };
            let side = if is_sample { &mut self.samples } else { &mut self.inserts };
            if let Some(polled) = may.then(|| side.poll_next(turn)).flatten() {
                return polled;
            }
        }
        // Neither flow may advance further, or neither has an item yet.
        if self.may_insert() || self.may_sample() { Poll::Pending } else { Poll::Ready(None) }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        for side in [&mut self.inserts, &mut self.samples] {
            checkpoint.number(&mut side.count);
            checkpoint.flag(&mut side.is_over);
            side.pull.checkpoint(checkpoint)?;
        }
        Ok(())
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Merges both flows, with `samples_per_insert` items of `samples` per item of `inserts`, within the tolerance. A
    /// flow that is ready may advance within the tolerance. The result ends when neither flow may advance, without
    /// pulling the rest of a flow that has not ended. Errors do not count as items.
    ///
    /// The sources of `samples` are numbered after those of `inserts`. An invalid ratio is an
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at the first pull.
    ///
    /// ```
    /// use relive_flow::{Flow, Ratio};
    ///
    /// let (acted, learnt) = (Flow::from_iter("acted", ["a"; 4]), Flow::from_iter("learnt", ["l"; 9]));
    /// let joined = Flow::in_ratio(acted, learnt, Ratio::exact(2.0, 1));
    /// assert_eq!(joined.into_iter().collect::<Result<String, _>>()?, "aallallallll");
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn in_ratio(inserts: Flow<T>, samples: Flow<T>, ratio: Ratio) -> Flow<T> {
        let mut sources = 0;
        let [inserts, samples] = [inserts, samples].map(|flow| flow.number_sources(&mut sources));
        let metrics = inserts.metrics.clone();
        samples.metrics.join(&metrics);
        let node = Node::new(
            format!("in_ratio({})", ratio.samples_per_insert),
            vec![Arc::clone(&inserts.node), Arc::clone(&samples.node)],
        );
        match ratio.fault() {
            Some(fault) => Flow::refused(node, metrics, &fault),
            None => {
                let (inserts, samples) = (Side::new(inserts), Side::new(samples));
                Flow::new(RatioState { ratio, inserts, samples }, node, metrics).with_sources(sources)
            }
        }
    }
}
