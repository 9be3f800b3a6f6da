//! The shards from which an operator pulls.

use std::sync::Arc;

use super::executor::OnFailure;
use super::parflow::ParFlow;
use super::runner::Runner;
use super::shard::ShardFlow;
use crate::checkpoint::Checkpoint;
use crate::metrics::Metrics;
use crate::node::ShardNodes;
use crate::pull::TakeOrder;
use crate::{ErrorKind, Flow, FlowError, Result};

/// The shards of an operator, which start with the first pull.
pub(super) struct Shards<T> {
    on_failure: OnFailure,
    /// The operators of the shards.
    pub(super) nodes: Arc<ShardNodes>,
    /// The metrics that the shards' operators share.
    pub(super) metrics: Metrics,
    pub(super) waiting: Vec<ShardFlow<T>>,
    pub(super) runners: Vec<Runner<T>>,
    /// The indices of the runners' shards.
    places: Vec<usize>,
    /// Why a shard could not be started. Its items are lost, so no other items are returned either.
    failure: Option<String>,
}

impl<T: Send + 'static> Shards<T> {
    pub(super) fn of<S: Send + 'static>(par: ParFlow<T, S>) -> Self {
        let ParFlow { plans, on_failure } = par;
        let (nodes, metrics) = (ShardNodes::new(plans.len()), Metrics::default());
        let shards = plans.into_iter().enumerate().map(|(place, plan)| {
            let (nodes, metrics) = (Arc::clone(&nodes), metrics.clone());
            let begun = move |flow: &Flow<T>| {
                nodes.set(place, &flow.node);
                flow.metrics.join(&metrics);
            };
            ShardFlow::of(plan, on_failure, begun)
        });
        let waiting = shards.collect();
        let (runners, places) = (Vec::new(), Vec::new());
        Self { on_failure, nodes, metrics, waiting, runners, places, failure: None }
    }

    /// Starts the shards if necessary, sets how they are pulled, and requests this many items from each.
    pub(super) fn start(&mut self, ahead: usize, take_order: TakeOrder) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(FlowError::new(ErrorKind::Operator, failure.clone()));
        }
        for shard in std::mem::take(&mut self.waiting) {
            let started = Runner::start(shard.take_order(take_order));
            let mut runner = started.inspect_err(|error| self.failure = Some(error.to_string()))?;
            runner.ask(ahead);
            self.places.push(self.runners.len());
            self.runners.push(runner);
        }
        Ok(())
    }

    /// Returns whether to pass errors on while `live` other shards continue.
    pub(super) fn gives_errors_on(&self, live: usize) -> bool {
        self.on_failure != OnFailure::DropShard || live == 0
    }

    /// Ends a shard.
    pub(super) fn remove(&mut self, number: usize) {
        drop(self.runners.remove(number));
        self.places.remove(number);
    }

    /// Returns the number of shards that have not ended.
    pub(super) fn live(&self) -> usize {
        self.waiting.len() + self.runners.len()
    }

    /// # Errors
    /// Shards that run in threads have already started.
    pub(super) fn checkpoint(&mut self, checkpoint: &mut Checkpoint, take_order: TakeOrder) -> Result<()> {
        let mut is_begun = self.waiting.is_empty();
        checkpoint.flag(&mut is_begun);
        if !is_begun {
            return Ok(());
        }
        self.start(0, take_order)?;
        let mut live = self.places.clone();
        checkpoint.places(&mut live);
        for number in (0..self.places.len()).rev() {
            if self.places.get(number).is_some_and(|place| !live.contains(place)) {
                self.remove(number);
            }
        }
        self.runners.iter_mut().try_for_each(|runner| runner.checkpoint(checkpoint))
    }
}
