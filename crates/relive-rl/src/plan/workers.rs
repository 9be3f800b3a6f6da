//! The streams from a run's workers, and how they are merged.

use std::sync::Arc;

use relive_flow::{Async, Executor, Flow, ParFlow, Shard};

use super::crew::Role;
use super::{Crew, Progress};
use crate::acting::RolloutWorker;
use crate::remote::Message;
use crate::{Acted, Result, RlError, Rollout};

/// One stream per worker of a run: rollouts, or the items that operators create from them. Operators added here run in
/// the workers, concurrently if they are threads or processes. [`sync`](Self::sync), [`acting`](Self::acting) and
/// [`gather_async`](Self::gather_async) merge the streams into one flow.
pub struct Workers<T = Rollout> {
    crew: Crew,
    flow: ParFlow<T, Result<RolloutWorker>>,
    /// The number of the first worker, if this value does not contain all workers.
    first: u32,
}

impl Crew {
    /// Returns each worker's fragments of `steps` steps. Each fragment begins with the newest weights.
    ///
    /// # Errors
    /// `steps` is 0, an environment or a policy cannot be created, there are more workers than environments, or the
    /// saved state belongs to a different kind of worker.
    pub fn rollouts(&self, steps: usize) -> Result<Workers> {
        if steps == 0 {
            // Otherwise, the workers would produce empty rollouts forever.
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

    /// Returns whether each worker is a thread of this process.
    pub(super) fn has_threads(&self) -> bool {
        matches!(self.role(), Role::Here { actors: 1.., .. })
    }

    /// Restores the saved state of a worker, and registers the worker to be saved.
    fn begin(&self, shard: &Shard<Result<RolloutWorker>>) -> Result<()> {
        let name = format!("worker {}", shard.number());
        shard.with(|worker| match (worker, self.saved_of_worker(&name)) {
            (Ok(worker), Some(saved)) => worker.restore(saved),
            (Ok(_), None) => Ok(()),
            (failed, _) => std::mem::replace(failed, Err(RlError::Stopped)).map(drop),
        })?;
        let shard = shard.clone();
        let save_part = move || shard.with(|worker| worker.as_mut().ok().map(RolloutWorker::save));
        if self.acts_in_turn() {
            self.keep_of_run(&name, Box::new(save_part));
        }
        Ok(())
    }
}

impl<T: Send + 'static> Workers<T> {
    pub(super) fn new(crew: Crew, flow: ParFlow<T, Result<RolloutWorker>>, first: u32) -> Workers<T> {
        Workers { crew, flow, first }
    }

    /// Applies `operators` to each worker's stream, with the worker's number. Any operator of a [`Flow`] can be used.
    #[must_use]
    pub fn on_each<U: Send + 'static>(
        self,
        operators: impl Fn(Flow<T>, u32) -> Flow<U> + Send + Sync + 'static,
    ) -> Workers<U> {
        let Workers { crew, flow, first } = self;
        let flow = flow.on_each(move |flow, shard| operators(flow, first + shard.number()));
        Workers { crew, flow, first }
    }

    /// Returns the workers' items, in order of arrival. A worker in this process works up to `depth` items ahead; a
    /// worker in another process produces items until its queue is full.
    ///
    /// # Errors
    /// Same as [`sync`](Workers::sync).
    pub fn gather_async(self, ahead: Async) -> Result<Flow<T>>
    where
        T: Message,
    {
        Ok(match self.crew.role() {
            Role::Here { .. } => self.flow.gather_async(ahead),
            Role::Driver(driver) => {
                driver.in_arrival_order(self.crew.layouts()?).prefetch(RESULTS_AHEAD).flatten()
            }
            Role::Worker { output, .. } => {
                output.in_arrival_order(self.flow.gather_async(ahead));
                elsewhere()
            }
            Role::Follower { .. } => elsewhere(),
        })
    }
}

/// The length of the queue of workers' reports while learner 0 waits for the others. It exceeds the number of reports
/// that the tables' rate limiters allow.
const ACTED_AHEAD: usize = 1 << 20;

/// The number of lists of results that are decoded while the learner is working.
const RESULTS_AHEAD: usize = 1;

impl Workers<Rollout> {
    /// Returns rollouts that each combine one rollout from every worker, side by side. All of them are produced with
    /// the same weights, because no worker begins another rollout before the learner has used this one.
    ///
    /// # Errors
    /// The rollouts do not fit in memory, or the agent cannot act in the environment.
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

    /// Returns the workers' reports, in order of arrival. The rollouts themselves are dropped, since they are in
    /// tables.
    ///
    /// # Errors
    /// Same as [`sync`](Self::sync).
    pub fn acting(self) -> Result<Flow<Progress>> {
        let crew = self.crew.clone();
        let acted_of = |rollouts: Flow<Rollout>, _| rollouts.for_each(|rollout| rollout.acted).named("acted");
        let acted = self.on_each(acted_of);
        let acted: Flow<Vec<Acted>> = match acted.crew.role() {
            Role::Worker { output, .. } => {
                output.acting(acted.flow.gather_async(Async::default()));
                elsewhere()
            }
            Role::Here { .. } | Role::Driver(_) | Role::Follower { .. } => {
                acted.gather_async(Async::default())?
            }
        };
        // In each step, learner 0 waits for the other learners, which wait for steps of workers. In the meantime, a
        // thread keeps the workers running.
        let acted = if crew.learners() > 1 { acted.prefetch(ACTED_AHEAD) } else { acted };
        Ok(acted.for_each(|acted| Progress { acted, learnt: None }).named("acting"))
    }
}

/// Returns an empty flow, because another process of the run produces the stream.
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
