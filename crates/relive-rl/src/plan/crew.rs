//! What a run offers to the plan of its agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, TableHandle};
use relive_env::{Buffer, EnvironmentSpec};
use relive_flow::{Executor, ParFlow, Shard};
use relive_random::Key;

use super::{MakeEnvironment, Rows, SharedLearner, Workers};
use crate::acting::RolloutWorker;
use crate::adders::Adder;
use crate::contracts::WeightStore;
use crate::learners::Team;
use crate::processes::{Driver, Layouts, Serving};
use crate::recorded::{self, RecordedEpisode};
use crate::run::Looking;
use crate::run::identity::Identity;
use crate::run::kept::{Kept, Tell};
use crate::run::seeds::{Who, actor_key, environment_seed, learner_key};
use crate::times::SharedTimes;
use crate::{Agent, Learner, Purpose, Result, RlError, Rollout, Seat};

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
    pub(crate) place: Place,
    pub(crate) env_steps: u64,
    /// Recorded episodes to learn from instead of acting.
    pub(crate) data: Option<PathBuf>,
    /// Checkpoints before this.
    pub(crate) checkpoints: u64,
    /// Whether the environments begin anew after each checkpoint, since they cannot tell their states.
    pub(crate) begins_anew: bool,
    pub(crate) weights: WeightStore,
    pub(crate) kept: Kept,
    pub(crate) client: Client,
    /// What the operators in this process take, beside those of workers.
    pub(crate) times: SharedTimes,
    /// Functions that see its steps and batches.
    pub(crate) hooks: Looking,
    /// Its learners, where there are several.
    pub(crate) team: Option<Arc<Team>>,
}

/// Where the workers of a run are, and what this process is in it.
pub(crate) enum Place {
    /// Everything is in this process. With no actors the thread that learns acts, too, in turn; otherwise each worker is a thread.
    Here { actors: usize, engine: Engine },
    /// This process learns, and the workers are others.
    Driver(Arc<Driver>),
    /// This process is one of so many workers.
    Worker { number: u32, of: usize, serving: Arc<Serving> },
    /// This process learns along with the run's first learner. The run has so many workers.
    Follower { of: usize },
}

impl Inner {
    /// What a process has that takes part in a run of another process.
    fn elsewhere(
        (agent, make, client): (&Arc<dyn Agent>, &MakeEnvironment, &Client),
        (identity, spec): (&Identity, EnvironmentSpec),
        place: Place,
    ) -> Inner {
        Inner {
            agent: Arc::clone(agent),
            make: make.clone(),
            environment: identity.environment.clone(),
            spec,
            seed: identity.seed,
            place,
            env_steps: u64::MAX,
            data: None,
            checkpoints: 0,
            begins_anew: false,
            weights: WeightStore::default(),
            kept: Kept::default(),
            client: client.clone(),
            times: SharedTimes::default(),
            hooks: Looking::default(),
            team: None,
        }
    }
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

    /// The worker of a number, in a process of its own, which acts by weights that are published to it.
    pub(crate) fn of_worker(
        who: (&Arc<dyn Agent>, &MakeEnvironment, &Client),
        (identity, spec, checkpoints): (&Identity, EnvironmentSpec, u64),
        (number, of): (u32, usize),
        (weights, serving): (WeightStore, Arc<Serving>),
    ) -> Crew {
        // Workers that there are too many for still have environments of their own.
        let place = Place::Worker { number, of: of.max(index(number) + 1), serving };
        Crew::new(Inner { checkpoints, weights, ..Inner::elsewhere(who, (identity, spec), place) })
    }

    /// A learner that is not the first, in a process of its own.
    pub(crate) fn of_follower(
        who: (&Arc<dyn Agent>, &MakeEnvironment, &Client),
        of: (&Identity, EnvironmentSpec),
        (workers, env_steps): (usize, u64),
        team: Arc<Team>,
    ) -> Crew {
        let place = Place::Follower { of: workers };
        Crew::new(Inner { env_steps, team: Some(team), ..Inner::elsewhere(who, of, place) })
    }

    pub(crate) fn agent(&self) -> &dyn Agent {
        self.0.agent.as_ref()
    }

    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    /// What rows of the workers look like.
    pub(super) fn layouts(&self) -> Result<Layouts> {
        Layouts::of(self.agent(), &self.0.spec, self.0.seed)
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
        if let Some(team) = &self.0.team {
            if matches!(self.0.place, Place::Follower { .. }) {
                learner.restore(&team.state()?)?;
            }
            learner.share(team.peers.clone())?;
        }
        // A worker's process has a learner for what it does for the driver's, which alone publishes.
        let weights = match self.0.place {
            Place::Worker { .. } => WeightStore::default(),
            Place::Here { .. } | Place::Driver(_) | Place::Follower { .. } => self.0.weights.clone(),
        };
        let looked_at = (self.0.times.clone(), self.0.hooks.clone());
        let shared = SharedLearner::new(learner, weights, looked_at, self.0.team.clone())?;
        let kept = shared.clone();
        self.0.kept.keep(LEARNER, Box::new(move || Some(kept.save())));
        Ok(shared)
    }

    /// Fragments of so many steps, worker by worker. Each begins with the newest weights.
    ///
    /// # Errors
    /// No steps; an environment or a policy cannot be made; there are more workers than environments; what was saved is not of such a worker.
    pub fn rollouts(&self, steps: usize) -> Result<Workers> {
        if steps == 0 {
            // They would be made for ever, without a step of the run.
            return Err(RlError::setting("the number of steps of a rollout", steps, "at least 1"));
        }
        let crew = self.clone();
        let (first, workers) = match &self.0.place {
            Place::Here { actors, .. } => (0, u32::try_from((*actors).max(1)).unwrap_or(u32::MAX)),
            Place::Driver(_) | Place::Follower { .. } => (0, 0),
            Place::Worker { number, .. } => (*number, 1),
        };
        let executor = if self.has_threads() { Executor::Threads } else { Executor::Serial };
        let worker = move |shard| crew.worker(first + shard);
        let turns = ParFlow::from_states(&executor, workers, worker, |_| Some(()));
        let serving = match &self.0.place {
            Place::Worker { serving, .. } => Some(Arc::clone(serving)),
            Place::Here { .. } | Place::Driver(_) | Place::Follower { .. } => None,
        };
        let hooks = self.0.hooks.clone();
        let rollouts = turns.on_each(move |turns, shard: &Shard<Result<RolloutWorker>>| {
            let (shard, serving, hooks) = (shard.clone(), serving.clone(), hooks.clone());
            let acted = turns.try_for_each(move |()| {
                let rollout = shard.with(|worker| rollout(worker, steps))?;
                hooks.rollout(&rollout)?;
                serving.iter().for_each(|serving| serving.note(&rollout.acted));
                Ok::<_, RlError>(rollout)
            });
            acted.named("act").measured(Rollout::size_bytes)
        });
        for shard in rollouts.shards() {
            self.begin(&shard)?;
        }
        Ok(Workers::new(self.clone(), rollouts, first))
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
        let tell = move || shard.with(|worker| worker.as_mut().ok().map(RolloutWorker::save));
        if self.acts_in_turn() {
            self.0.kept.keep(&name, Box::new(tell));
        }
        Ok(())
    }

    /// Saves with the run what belongs to episodes of a worker that are not over yet. Workers with threads, or in processes, are not where the run is
    /// when it is saved, and so begin anew; so do environments that cannot be saved.
    pub(super) fn keep_of_episodes(&self, name: &str, tell: Tell) {
        if self.acts_in_turn() && !self.0.begins_anew {
            self.0.kept.keep(name, tell);
        }
    }

    /// Saves with the run what belongs to no worker.
    pub(super) fn keep_of_run(&self, name: &str, tell: Tell) {
        self.0.kept.keep(name, tell);
    }

    /// From now on a part is saved with the run as it is now.
    pub(crate) fn keep(&self, name: &str, state: Vec<u8>) {
        self.0.kept.keep(name, Box::new(move || Some(state.clone())));
    }

    /// The state that the part of a name had, if it was saved.
    pub(crate) fn saved(&self, name: &str) -> Option<&[u8]> {
        self.0.kept.saved(name)
    }

    /// Whether each worker has a thread of this process.
    fn has_threads(&self) -> bool {
        matches!(self.0.place, Place::Here { actors: 1.., .. })
    }

    /// The folder of recorded episodes that the run is to learn from instead of acting; none for a run that acts.
    #[must_use]
    pub fn data(&self) -> Option<&Path> {
        self.0.data.as_deref()
    }

    /// The episodes that are recorded in a folder.
    ///
    /// # Errors
    /// They cannot be read, or are not of the environment.
    pub fn recorded(&self, folder: &Path) -> Result<Vec<RecordedEpisode>> {
        recorded::load(folder, &self.0.spec)
    }

    /// So many episodes of the environment's own demonstrator.
    ///
    /// # Errors
    /// [`NoDemonstrator`](RlError::NoDemonstrator).
    pub fn demonstrated(&self, episodes: usize) -> Result<Vec<RecordedEpisode>> {
        let Inner { make, environment, seed, .. } = &*self.0;
        let seeds = [environment_seed(environment, *seed, Who::Demonstrator)];
        let mut made = make.rows(Rows { first: 0, seeds: &seeds, resumed: 0, is_exact: true })?;
        // Environments that are had together only cannot be asked one by one.
        let demonstrator = made.one(0).ok_or(RlError::NoDemonstrator)?;
        (0..episodes).map(|_| RecordedEpisode::demonstrated(demonstrator)).collect()
    }

    /// Writes episodes into a table by an adder, with zeros for what a policy would have written beside its actions. A table that has something
    /// in it already, as in a run that is resumed, stays as it is, and nobody asks for the episodes.
    ///
    /// # Errors
    /// There is no such table; the episodes cannot be had, or not be written.
    pub fn fill(
        &self,
        table: &str,
        adder: &mut dyn Adder,
        episodes: impl FnOnce() -> Result<Vec<RecordedEpisode>>,
    ) -> Result<()> {
        let is_filled = || -> Result<bool> {
            let info = self.0.client.server_info()?;
            Ok(info.table(table).is_some_and(|found| found.current_size > 0))
        };
        if matches!(self.0.place, Place::Worker { .. } | Place::Follower { .. }) || is_filled()? {
            return Ok(());
        }
        let extras = Buffer::for_nest(&self.layouts()?.extras, 1)?;
        episodes()?.iter().try_for_each(|episode| episode.write(adder, extras.view()))
    }

    /// The way to the tables.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The table of a name, where the thread that learns must not wait for it: it acts, too.
    pub(super) fn table_in_turn(&self, name: &str) -> Result<Option<TableHandle>> {
        let Place::Here { actors: 0, engine } = &self.0.place else { return Ok(None) };
        let unknown = |_| RlError::setting("the table of a plan", name, "one of the agent's tables");
        engine.table(name).map(Some).map_err(unknown)
    }

    /// Whether one thread acts and learns in turn.
    #[must_use]
    pub fn acts_in_turn(&self) -> bool {
        matches!(self.0.place, Place::Here { actors: 0, .. })
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        match &self.0.place {
            Place::Here { actors, .. } => (*actors).max(1),
            Place::Driver(driver) => driver.workers(),
            Place::Worker { of, .. } | Place::Follower { of } => *of,
        }
    }

    /// How many learners there are, each of which samples batches of its own.
    #[must_use]
    pub fn learners(&self) -> usize {
        self.0.team.as_ref().map_or(1, |team| index(team.peers.count()))
    }

    /// Waits for all learners, of which the others get the state of this one.
    pub(crate) fn meet(&self) -> Result<()> {
        let Some(team) = &self.0.team else { return Ok(()) };
        let state = self.0.kept.now(LEARNER);
        team.meet(state.ok_or(RlError::Order { call: "several learners", needs: "a plan with a learner" })?)
    }

    pub(crate) fn team(&self) -> Option<&Team> {
        self.0.team.as_deref()
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
        let index = index(number);
        let rows = index * total / workers..(index + 1) * total / workers;
        let first = rows.start;
        let rows: Vec<_> = rows.map(Who::Actor).collect();
        self.seated(number, Purpose::Training, &rows, (first, total))
    }

    /// A worker that shows what was learned.
    pub(crate) fn evaluator(&self) -> Result<RolloutWorker> {
        let mut worker = self.seated(0, Purpose::Evaluation, &[Who::Evaluator], (0, 1))?;
        self.0.kept.saved(EVALUATOR).map_or(Ok(()), |saved| worker.restore(saved))?;
        Ok(worker)
    }

    fn seated(
        &self,
        number: u32,
        purpose: Purpose,
        rows: &[Who],
        (first, of): (usize, usize),
    ) -> Result<RolloutWorker> {
        let Inner { agent, make, environment, spec, seed, checkpoints, weights, .. } = &*self.0;
        let seeds: Vec<u64> = rows.iter().map(|who| environment_seed(environment, *seed, *who)).collect();
        let is_exact = purpose == Purpose::Training;
        let environments = make.rows(Rows { first, seeds: &seeds, resumed: *checkpoints, is_exact })?;
        let count = environments.len();
        if is_exact && count != rows.len() {
            let expected = format!("{}, its share of the agent's environments", rows.len());
            return Err(RlError::setting("the environments of a worker", count, expected));
        }
        // A worker that is not saved with a checkpoint does not repeat what it did before.
        let mut keys: Vec<Key> = rows.iter().map(|who| actor_key(*seed, *who).nth(*checkpoints)).collect();
        let more =
            (keys.len()..count).map(|row| actor_key(*seed, Who::Evaluator).child("row").nth(row as u64));
        keys.extend(more.collect::<Vec<_>>());
        let policy = agent.policy(&Seat { spec, purpose, keys: &keys, first, of: of.max(count) })?;
        RolloutWorker::new(number, environments, policy, weights.clone(), environment)
    }

    pub(crate) fn weights(&self) -> &WeightStore {
        &self.0.weights
    }

    pub(crate) fn begins_anew(&self) -> bool {
        self.0.begins_anew
    }

    pub(crate) fn times(&self) -> &SharedTimes {
        &self.0.times
    }

    /// Whether the environments can [save](relive_env::Environment::save) their states, as an agent needs it that looks ahead in them.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited) with what was `expected` if they cannot.
    pub fn expect_saved_states(&self, expected: &'static str) -> Result<()> {
        let Inner { make, environment, seed, .. } = &*self.0;
        match make.are_saved(environment_seed(environment, *seed, Who::Actor(0)))? {
            true => Ok(()),
            false => Err(RlError::Unsuited { expected, got: "none of its state to tell".to_owned() }),
        }
    }

    /// The states of all parts, and of the evaluator if it has one.
    pub(crate) fn save(&self, evaluator: Option<Vec<u8>>) -> Vec<u8> {
        if let Some(state) = evaluator {
            self.keep(EVALUATOR, state);
        }
        self.0.kept.save()
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
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
