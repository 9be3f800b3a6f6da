//! What the workers of a run do, and how it comes together.

use relive_flow::{Async, Flow, ParFlow};

use super::crew::Place;
use super::{Crew, Progress};
use crate::acting::RolloutWorker;
use crate::processes::Carried;
use crate::{Acted, Result, Rollout};

/// One stream in each worker of a run: rollouts, or what is made of them there. What is done here is done by the workers, side by side if the run
/// has several, in threads or in processes; [`sync`](Self::sync), [`acting`](Self::acting) and [`gather_async`](Self::gather_async) make one flow of them.
pub struct Workers<T = Rollout> {
    crew: Crew,
    flow: ParFlow<T, Result<RolloutWorker>>,
    /// The number of the first, where these are not all.
    first: u32,
}

impl<T: Send + 'static> Workers<T> {
    pub(super) fn new(crew: Crew, flow: ParFlow<T, Result<RolloutWorker>>, first: u32) -> Workers<T> {
        Workers { crew, flow, first }
    }

    /// Does the same with the stream of each worker, whose number it gets: all operators of a [`Flow`] can be had in this way.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, u32) -> Flow<U> + Send + Sync + 'static,
    ) -> Workers<U> {
        let Workers { crew, flow, first } = self;
        let flow = flow.on_each(move |flow, shard| operators(flow, first + shard.number()));
        Workers { crew, flow, first }
    }

    /// What the workers make, as it comes. In this process each is up to `depth` items ahead; a process makes items until the queue on their way
    /// is full.
    ///
    /// # Errors
    /// As [`sync`](Workers::sync).
    pub fn gather_async(self, ahead: Async) -> Result<Flow<T>>
    where
        T: Carried,
    {
        Ok(match self.crew.place() {
            Place::Here { .. } => self.flow.gather_async(ahead),
            Place::Driver(driver) => {
                driver.as_they_come(self.crew.layouts()?).prefetch(RESULTS_AHEAD).flatten()
            }
            Place::Worker { serving, .. } => {
                serving.as_they_come(self.flow.gather_async(ahead));
                elsewhere()
            }
            Place::Follower { .. } => elsewhere(),
        })
    }
}

/// What workers tell while learner 0 waits for the others: more than the tables' rate limiters let them do meanwhile.
const ACTED_AHEAD: usize = 1 << 20;

/// Lists of results that are decoded while one is learned from.
const RESULTS_AHEAD: usize = 1;

impl Workers<Rollout> {
    /// A rollout of each worker, side by side, all made by the same weights: no worker begins another one before this was learned from.
    ///
    /// # Errors
    /// There is no memory for such rollouts; the agent cannot act in the environment.
    pub fn sync(self) -> Result<Flow<Rollout>> {
        Ok(match self.crew.place() {
            Place::Here { .. } => {
                let rounds = self.flow.batch_across_shards().try_for_each(Rollout::side_by_side);
                rounds.named("side by side").measured(Rollout::size_bytes)
            }
            Place::Driver(driver) => {
                let rounds = driver.rounds(self.crew.layouts()?).try_for_each(Rollout::side_by_side);
                rounds.named("side by side").measured(Rollout::size_bytes)
            }
            Place::Worker { serving, .. } => {
                serving.rounds(self.flow.gather_sync());
                elsewhere()
            }
            Place::Follower { .. } => elsewhere(),
        })
    }

    /// What workers have done, as it comes; the rollouts themselves are dropped, since they are in tables.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn acting(self) -> Result<Flow<Progress>> {
        let crew = self.crew.clone();
        let told = |rollouts: Flow<Rollout>, _| rollouts.for_each(|rollout| rollout.acted).named("acted");
        let acted = self.on_each(told);
        let acted: Flow<Vec<Acted>> = match acted.crew.place() {
            Place::Worker { serving, .. } => {
                serving.acting(acted.flow.gather_async(Async::default()));
                elsewhere()
            }
            Place::Here { .. } | Place::Driver(_) | Place::Follower { .. } => {
                acted.gather_async(Async::default())?
            }
        };
        // Learner 0 waits for the others in its steps, and they wait for the steps of workers, whom a thread has go on meanwhile.
        let acted = if crew.learners() > 1 { acted.prefetch(ACTED_AHEAD) } else { acted };
        Ok(acted.for_each(|acted| Progress { acted, learnt: None }).named("acting"))
    }
}

/// What is not made in this process.
fn elsewhere<T: Send + 'static>() -> Flow<T> {
    Flow::from_iter("in the driver", std::iter::empty())
}
