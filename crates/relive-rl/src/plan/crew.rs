//! What a run offers to the plan of its agent.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, TableHandle};
use relive_env::{Environment, EnvironmentSpec, Vectorized};
use relive_flow::{Executor, ParFlow, Shard};
use relive_random::Key;

use super::{SharedLearner, Workers};
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::run::kept::{Kept, Tell};
use crate::run::seeds::{Who, actor_key, environment_seed, learner_key};
use crate::{Agent, Learner, Purpose, Result, RlError, Rollout, Seat};

/// Makes an environment with a seed of its own.
pub type MakeEnvironment = Arc<dyn Fn(u64) -> Result<Box<dyn Environment>> + Send + Sync>;

const LEARNER: &str = "learner";
const EVALUATOR: &str = "evaluator";

/// The workers and the learner of a run, as its plan gets them. Cheap to clone.
#[derive(Clone)]
pub struct Crew(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) make: MakeEnvironment,
    pub(crate) environment: String,
    pub(crate) spec: EnvironmentSpec,
    pub(crate) seed: u64,
    /// Workers beside the thread that pulls; 0: that thread acts, too.
    pub(crate) actors: usize,
    pub(crate) env_steps: u64,
    /// Checkpoints before this.
    pub(crate) checkpoints: u64,
    pub(crate) weights: WeightStore,
    pub(crate) kept: Kept,
    pub(crate) engine: Engine,
    pub(crate) client: Client,
}

impl Crew {
    pub(crate) fn new(inner: Inner) -> Crew {
        Crew(Arc::new(inner))
    }

    /// What the environments take and give.
    #[must_use]
    pub fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    pub(crate) fn agent(&self) -> &dyn Agent {
        self.0.agent.as_ref()
    }

    /// Everything random in the learner follows from it.
    #[must_use]
    pub fn learner_key(&self) -> Key {
        learner_key(self.0.seed)
    }

    /// Steps in the environment that the run is to make.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        self.0.env_steps
    }

    /// Environments of all workers together.
    #[must_use]
    pub fn environments(&self) -> usize {
        self.0.agent.environments(self.workers())
    }

    /// The learner, as the operators of the plan share it. It goes on where it was if the run is resumed, and is saved with the run.
    ///
    /// # Errors
    /// [`State`](RlError::State): what was saved is not of such a learner.
    pub fn learner<L: Learner + 'static>(&self, mut learner: L) -> Result<SharedLearner<L>> {
        if let Some(saved) = self.0.kept.saved(LEARNER) {
            learner.restore(saved)?;
        }
        let shared = SharedLearner::new(learner, self.0.weights.clone())?;
        let kept = shared.clone();
        self.0.kept.keep(LEARNER, Box::new(move || Some(kept.save())));
        Ok(shared)
    }

    /// Fragments of so many steps, worker by worker. Each begins with the newest weights.
    ///
    /// # Errors
    /// An environment or a policy cannot be made; there are more workers than environments; what was saved is not of such a worker.
    pub fn rollouts(&self, steps: usize) -> Result<Workers> {
        let crew = self.clone();
        let workers = u32::try_from(self.workers()).unwrap_or(u32::MAX);
        let executor = if self.has_threads() { Executor::Threads } else { Executor::Serial };
        let turns = ParFlow::from_states(&executor, workers, move |number| crew.worker(number), |_| Some(()));
        let rollouts = turns.on_each(move |turns, shard: &Shard<Result<RolloutWorker>>| {
            let shard = shard.clone();
            turns.try_for_each(move |()| shard.with(|worker| rollout(worker, steps)))
        });
        for shard in rollouts.shards() {
            self.begin(&shard)?;
        }
        Ok(Workers::new(rollouts))
    }

    /// Restores a worker that was saved, and sees to it that it is.
    fn begin(&self, shard: &Shard<Result<RolloutWorker>>) -> Result<()> {
        let name = format!("worker {}", shard.number());
        shard.with(|worker| match (worker, self.0.kept.saved(&name)) {
            (Ok(worker), Some(saved)) => worker.restore(saved),
            (Ok(_), None) => Ok(()),
            (failed, _) => std::mem::replace(failed, Err(RlError::Stopped)).map(drop),
        })?;
        let shard = shard.clone();
        let tell = move || shard.with(|worker| worker.as_mut().ok().and_then(RolloutWorker::save));
        self.keep_of_worker(&name, Box::new(tell));
        Ok(())
    }

    /// Saves a part of a worker with the run. Workers with threads are not where the run is when it is saved, and so begin anew.
    pub(super) fn keep_of_worker(&self, name: &str, tell: Tell) {
        if !self.has_threads() {
            self.0.kept.keep(name, tell);
        }
    }

    /// The state that the part of a name had, if it was saved.
    pub(super) fn saved(&self, name: &str) -> Option<&[u8]> {
        self.0.kept.saved(name)
    }

    /// Whether each worker has a thread.
    pub(super) fn has_threads(&self) -> bool {
        self.0.actors > 0
    }

    /// The way to the tables.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn table(&self, name: &str) -> Result<TableHandle> {
        let expected = "one of the agent's tables";
        self.0.engine.table(name).map_err(|_| RlError::setting("the table of a plan", name, expected))
    }

    fn workers(&self) -> usize {
        self.0.actors.max(1)
    }

    /// A worker of the run, with its share of the environments.
    fn worker(&self, number: u32) -> Result<RolloutWorker> {
        let (workers, total) = (self.workers(), self.environments());
        if workers > total {
            return Err(RlError::setting(
                "actors",
                workers,
                "at most the number of the agent's environments",
            ));
        }
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let rows = index * total / workers..(index + 1) * total / workers;
        self.seated(number, Purpose::Training, &rows.map(Who::Actor).collect::<Vec<_>>())
    }

    /// A worker that shows what was learned.
    pub(crate) fn evaluator(&self) -> Result<RolloutWorker> {
        let mut worker = self.seated(0, Purpose::Evaluation, &[Who::Evaluator])?;
        self.0.kept.saved(EVALUATOR).map_or(Ok(()), |saved| worker.restore(saved))?;
        Ok(worker)
    }

    fn seated(&self, number: u32, purpose: Purpose, rows: &[Who]) -> Result<RolloutWorker> {
        let Inner { agent, make, environment, spec, seed, checkpoints, weights, .. } = &*self.0;
        let made = rows.iter().map(|who| make(environment_seed(environment, *seed, *who)));
        let environments = Vectorized::from_environments(made.collect::<Result<_>>()?)?;
        // A worker that is not saved with a checkpoint does not repeat what it did before.
        let keys: Vec<Key> = rows.iter().map(|who| actor_key(*seed, *who).nth(*checkpoints)).collect();
        let policy = agent.policy(&Seat { spec, purpose, keys: &keys })?;
        RolloutWorker::new(number, environments, policy, weights.clone(), environment)
    }

    pub(crate) fn weights(&self) -> &WeightStore {
        &self.0.weights
    }

    /// # Errors
    /// An environment cannot tell its state, so that the run could not be saved.
    pub(crate) fn expect_saveable(&self) -> Result<()> {
        let Inner { make, environment, seed, .. } = &*self.0;
        let mut first = make(environment_seed(environment, *seed, Who::Actor(0)))?;
        let unsaved = || RlError::Unsuited {
            expected: "an environment that can save its state, since there are to be checkpoints (without a thread of their own for actors, \
                       all native environments can)",
            got: "none of its state to tell".to_owned(),
        };
        first.save().map(drop).ok_or_else(unsaved)
    }

    /// The states of all parts, and of the evaluator if it has one.
    pub(crate) fn save(&self, evaluator: Option<Vec<u8>>) -> Vec<u8> {
        if let Some(state) = evaluator {
            self.0.kept.keep(EVALUATOR, Box::new(move || Some(state.clone())));
        }
        self.0.kept.save()
    }
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
