//! What the workers of a run do, and how it comes together.

use std::sync::Arc;

use relive_flow::{Async, Executor, Flow, ParFlow, Shard};

use super::crew::Role;
use super::{Crew, Progress};
use crate::acting::RolloutWorker;
use crate::remote::Message;
use crate::{Acted, Result, RlError, Rollout};

/// One stream in each worker of a run: rollouts, or what is made of them there. What is done here is done by the
/// workers, side by side if the run has several, in threads or in processes; [`sync`](Self::sync),
/// [`acting`](Self::acting) and [`gather_async`](Self::gather_async) make one flow of them.
pub struct Workers<T = Rollout> {
    crew: Crew,
    flow: ParFlow<T, Result<RolloutWorker>>,
    /// The number of the first, where these are not all.
    first: u32,
}

impl Crew {
    /// Fragments of so many steps, worker by worker. Each begins with the newest weights.
    ///
    /// # Errors
    /// No steps; an environment or a policy cannot be made; there are more workers than environments; what was saved
    /// is not of such a worker.
    pub fn rollouts(&self, steps: usize) -> Result<Workers> {
        if steps == 0 {
            // They would be made for ever, without a step of the run.
            return Err(RlError::setting("the number of steps of a rollout", steps, "at least 1"));
        }
        let crew = self.clone();
        let (first, workers) = match self.role() {
            Role::Here { actors, .. } => (0, u32::try_from((*actors).max(1)).unwrap_or(u32::MAX)),
            Role::Driver(_) | Role::Follower { .. } => (0, 0),
            Role::Worker { number, .. } => (*number, 1),
        };
        let executor = if self.has_threads() { Executor::Threads } else { Executor::Serial };
        let worker = move |shard| crew.worker(first + shard);
        let turns = ParFlow::from_states(&executor, workers, worker, |_| Some(()));
        let output = match self.role() {
            Role::Worker { output, .. } => Some(Arc::clone(output)),
            Role::Here { .. } | Role::Driver(_) | Role::Follower { .. } => None,
        };
        let hooks = self.hooks().clone();
        let rollouts = turns.on_each(move |turns, shard: &Shard<Result<RolloutWorker>>| {
            let (shard, output, hooks) = (shard.clone(), output.clone(), hooks.clone());
            let acted = turns.try_for_each(move |()| {
                let rollout = shard.with(|worker| rollout(worker, steps))?;
                hooks.rollout(&rollout)?;
                output.iter().for_each(|output| output.note(&rollout.acted));
                Ok::<_, RlError>(rollout)
            });
            acted.named("act").measured(Rollout::size_bytes)
        });
        for shard in rollouts.shards() {
            self.begin(&shard)?;
        }
        Ok(Workers::new(self.clone(), rollouts, first))
    }

    /// Whether each worker has a thread of this process.
    fn has_threads(&self) -> bool {
        matches!(self.role(), Role::Here { actors: 1.., .. })
    }

    /// Restores a worker that was saved, and sees to it that it is.
    fn begin(&self, shard: &Shard<Result<RolloutWorker>>) -> Result<()> {
        let name = format!("worker {}", shard.number());
        shard.with(|worker| match (worker, self.saved(&name)) {
            (Ok(worker), Some(saved)) => worker.restore(saved),
            (Ok(_), None) => Ok(()),
            (failed, _) => std::mem::replace(failed, Err(RlError::Stopped)).map(drop),
        })?;
        let shard = shard.clone();
        let tell = move || shard.with(|worker| worker.as_mut().ok().map(RolloutWorker::save));
        if self.acts_in_turn() {
            self.keep_of_run(&name, Box::new(tell));
        }
        Ok(())
    }
}

impl<T: Send + 'static> Workers<T> {
    pub(super) fn new(crew: Crew, flow: ParFlow<T, Result<RolloutWorker>>, first: u32) -> Workers<T> {
        Workers { crew, flow, first }
    }

    /// Does the same with the stream of each worker, whose number it gets: all operators of a [`Flow`] can be had in
    /// this way.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, u32) -> Flow<U> + Send + Sync + 'static,
    ) -> Workers<U> {
        let Workers { crew, flow, first } = self;
        let flow = flow.on_each(move |flow, shard| operators(flow, first + shard.number()));
        Workers { crew, flow, first }
    }

    /// What the workers make, as it comes. In this process each is up to `depth` items ahead; a process makes items
    /// until the queue on their way is full.
    ///
    /// # Errors
    /// As [`sync`](Workers::sync).
    pub fn gather_async(self, ahead: Async) -> Result<Flow<T>>
    where
        T: Message,
    {
        Ok(match self.crew.role() {
            Role::Here { .. } => self.flow.gather_async(ahead),
            Role::Driver(driver) => {
                driver.as_they_come(self.crew.layouts()?).prefetch(RESULTS_AHEAD).flatten()
            }
            Role::Worker { output, .. } => {
                output.as_they_come(self.flow.gather_async(ahead));
                elsewhere()
            }
            Role::Follower { .. } => elsewhere(),
        })
    }
}

/// What workers tell while learner 0 waits for the others: more than the tables' rate limiters let them do meanwhile.
const ACTED_AHEAD: usize = 1 << 20;

/// Lists of results that are decoded while one is learned from.
const RESULTS_AHEAD: usize = 1;

impl Workers<Rollout> {
    /// A rollout of each worker, side by side, all made by the same weights: no worker begins another one before this
    /// was learned from.
    ///
    /// # Errors
    /// There is no memory for such rollouts; the agent cannot act in the environment.
    pub fn sync(self) -> Result<Flow<Rollout>> {
        Ok(match self.crew.role() {
            Role::Here { .. } => {
                let rounds = self.flow.batch_across_shards().try_for_each(Rollout::side_by_side);
                rounds.named("side by side").measured(Rollout::size_bytes)
            }
            Role::Driver(driver) => {
                let rounds = driver.rounds(self.crew.layouts()?).try_for_each(Rollout::side_by_side);
                rounds.named("side by side").measured(Rollout::size_bytes)
            }
            Role::Worker { output, .. } => {
                output.rounds(self.flow.gather_sync());
                elsewhere()
            }
            Role::Follower { .. } => elsewhere(),
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
        let acted: Flow<Vec<Acted>> = match acted.crew.role() {
            Role::Worker { output, .. } => {
                output.acting(acted.flow.gather_async(Async::default()));
                elsewhere()
            }
            Role::Here { .. } | Role::Driver(_) | Role::Follower { .. } => {
                acted.gather_async(Async::default())?
            }
        };
        // Learner 0 waits for the others in its steps, and they wait for the steps of workers, whom a thread has go
        // on meanwhile.
        let acted = if crew.learners() > 1 { acted.prefetch(ACTED_AHEAD) } else { acted };
        Ok(acted.for_each(|acted| Progress { acted, learnt: None }).named("acting"))
    }
}

/// What is not made in this process.
fn elsewhere<T: Send + 'static>() -> Flow<T> {
    Flow::from_iter("in the driver", std::iter::empty())
}

fn rollout(worker: &mut Result<RolloutWorker>, steps: usize) -> Result<Rollout> {
    match worker {
        Ok(worker) => worker.rollout(steps),
        failed => match std::mem::replace(failed, Err(RlError::Stopped)) {
            Ok(_) => Err(RlError::Stopped),
            Err(error) => Err(error),
        },
    }
}
