//! What a run offers to the plan of its agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, TableHandle};
use relive_env::{Buffer, EnvironmentSpec};
use relive_random::Key;

use super::saved_parts::{SavePart, SavedParts};
use super::{MakeEnvironment, Rows, RunHooks, SharedLearner};
use crate::acting::RolloutWorker;
use crate::adders::Adder;
use crate::contracts::{MakePolicy, WeightStore};
use crate::identity::Identity;
use crate::recorded::{self, RecordedEpisode};
use crate::remote::{Driver, Layouts, Team, WorkerOutput};
use crate::seeds::{Who, actor_key, environment_seed, learner_key};
use crate::times::SharedTimes;
use crate::{Learner, Purpose, Result, RlError, Seat};

const LEARNER: &str = "learner";
const EVALUATOR: &str = "evaluator";

/// The workers and the learner of a run, as its plan gets them. Cheap to clone.
#[derive(Clone)]
pub struct Crew(Arc<CrewParts>);

pub(crate) struct CrewParts {
    /// Makes the policies of the agent.
    pub(crate) policies: Arc<dyn MakePolicy>,
    pub(crate) make: MakeEnvironment,
    pub(crate) environment: String,
    pub(crate) spec: EnvironmentSpec,
    pub(crate) seed: u64,
    pub(crate) role: Role,
    pub(crate) env_steps: u64,
    /// Recorded episodes to learn from instead of acting.
    pub(crate) data: Option<PathBuf>,
    /// Checkpoints before this.
    pub(crate) checkpoints: u64,
    /// Whether the environments begin anew after each checkpoint, since they cannot tell their states.
    pub(crate) begins_anew: bool,
    pub(crate) weights: WeightStore,
    pub(crate) parts: SavedParts,
    pub(crate) client: Client,
    /// What the operators in this process take, beside those of workers.
    pub(crate) times: SharedTimes,
    /// Functions that see its steps and batches.
    pub(crate) hooks: RunHooks,
    /// Its learners, where there are several.
    pub(crate) team: Option<Arc<Team>>,
}

/// Where the workers of a run are, and what this process is in it.
pub(crate) enum Role {
    /// Everything is in this process. With no actors the thread that learns acts, too, in turn; otherwise each worker
    /// is a thread.
    Here { actors: usize, engine: Engine },
    /// This process learns, and the workers are others.
    Driver(Arc<Driver>),
    /// This process is one of so many workers.
    Worker { number: u32, of: usize, output: Arc<WorkerOutput> },
    /// This process learns along with the run's first learner. The run has so many workers.
    Follower { of: usize },
}

impl CrewParts {
    /// What a process has that takes part in a run of another process.
    fn elsewhere(
        (policies, make, client): (&Arc<dyn MakePolicy>, &MakeEnvironment, &Client),
        (identity, spec): (&Identity, EnvironmentSpec),
        role: Role,
    ) -> CrewParts {
        CrewParts {
            policies: Arc::clone(policies),
            make: make.clone(),
            environment: identity.environment.clone(),
            spec,
            seed: identity.seed,
            role,
            env_steps: u64::MAX,
            data: None,
            checkpoints: 0,
            begins_anew: false,
            weights: WeightStore::default(),
            parts: SavedParts::default(),
            client: client.clone(),
            times: SharedTimes::default(),
            hooks: RunHooks::default(),
            team: None,
        }
    }
}

impl Crew {
    pub(crate) fn new(inner: CrewParts) -> Crew {
        Crew(Arc::new(inner))
    }

    /// What the environments take and give.
    #[must_use]
    pub fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    /// The worker of a number, in a process of its own, which acts by weights that are published to it.
    pub(crate) fn of_worker(
        who: (&Arc<dyn MakePolicy>, &MakeEnvironment, &Client),
        (identity, spec, checkpoints): (&Identity, EnvironmentSpec, u64),
        (number, of): (u32, usize),
        (weights, output): (WeightStore, Arc<WorkerOutput>),
    ) -> Crew {
        // Workers that there are too many for still have environments of their own.
        let role = Role::Worker { number, of: of.max(index(number) + 1), output };
        Crew::new(CrewParts { checkpoints, weights, ..CrewParts::elsewhere(who, (identity, spec), role) })
    }

    /// A learner that is not the first, in a process of its own.
    pub(crate) fn of_follower(
        who: (&Arc<dyn MakePolicy>, &MakeEnvironment, &Client),
        of: (&Identity, EnvironmentSpec),
        (workers, env_steps): (usize, u64),
        team: Arc<Team>,
    ) -> Crew {
        let role = Role::Follower { of: workers };
        Crew::new(CrewParts { env_steps, team: Some(team), ..CrewParts::elsewhere(who, of, role) })
    }

    pub(super) fn role(&self) -> &Role {
        &self.0.role
    }

    /// What rows of the workers look like.
    pub(super) fn layouts(&self) -> Result<Layouts> {
        Layouts::of(self.0.policies.as_ref(), &self.0.spec, self.0.seed)
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
        self.0.policies.environments(self.workers())
    }

    /// The learner, as the operators of the plan share it. It goes on where it was if the run is resumed, and is
    /// saved with the run.
    ///
    /// # Errors
    /// [`State`](RlError::State): what was saved is not of such a learner.
    pub fn learner<L: Learner + 'static>(&self, mut learner: L) -> Result<SharedLearner<L>> {
        if let Some(saved) = self.0.parts.saved(LEARNER) {
            learner.restore(saved)?;
        }
        if let Some(team) = &self.0.team {
            if matches!(self.0.role, Role::Follower { .. }) {
                learner.restore(&team.state()?)?;
            }
            learner.share(team.peers.clone())?;
        }
        // A worker's process has a learner for what it does for the driver's, which alone publishes.
        let weights = match self.0.role {
            Role::Worker { .. } => WeightStore::default(),
            Role::Here { .. } | Role::Driver(_) | Role::Follower { .. } => self.0.weights.clone(),
        };
        let looked_at = (self.0.times.clone(), self.0.hooks.clone());
        let shared = SharedLearner::new(learner, weights, looked_at, self.0.team.clone())?;
        let parts = shared.clone();
        self.0.parts.keep(LEARNER, Box::new(move || Some(parts.save())));
        Ok(shared)
    }

    /// Saves with the run what belongs to episodes of a worker that are not over yet. Workers with threads, or in
    /// processes, are not where the run is when it is saved, and so begin anew; so do environments that cannot be
    /// saved.
    pub(super) fn keep_of_episodes(&self, name: &str, tell: SavePart) {
        if self.acts_in_turn() && !self.0.begins_anew {
            self.0.parts.keep(name, tell);
        }
    }

    /// Saves with the run what belongs to no worker.
    pub(super) fn keep_of_run(&self, name: &str, tell: SavePart) {
        self.0.parts.keep(name, tell);
    }

    /// From now on a part is saved with the run as it is now.
    pub(crate) fn keep(&self, name: &str, state: Vec<u8>) {
        self.0.parts.keep(name, Box::new(move || Some(state.clone())));
    }

    /// The state that the part of a name had, if it was saved.
    pub(crate) fn saved(&self, name: &str) -> Option<&[u8]> {
        self.0.parts.saved(name)
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
        let CrewParts { make, environment, seed, .. } = &*self.0;
        let seeds = [environment_seed(environment, *seed, Who::Demonstrator)];
        let mut made = make.rows(Rows { first: 0, seeds: &seeds, resumed: 0, is_exact: true })?;
        // Environments that are had together only cannot be asked one by one.
        let demonstrator = made.one(0).ok_or(RlError::NoDemonstrator)?;
        (0..episodes).map(|_| RecordedEpisode::demonstrated(demonstrator)).collect()
    }

    /// Writes episodes into a table by an adder, with zeros for what a policy would have written beside its actions.
    /// A table that has something in it already, as in a run that is resumed, stays as it is, and nobody asks for the
    /// episodes.
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
        if matches!(self.0.role, Role::Worker { .. } | Role::Follower { .. }) || is_filled()? {
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
        let Role::Here { actors: 0, engine } = &self.0.role else { return Ok(None) };
        let unknown = |_| RlError::setting("the table of a plan", name, "one of the agent's tables");
        engine.table(name).map(Some).map_err(unknown)
    }

    /// Whether one thread acts and learns in turn.
    #[must_use]
    pub fn acts_in_turn(&self) -> bool {
        matches!(self.0.role, Role::Here { actors: 0, .. })
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        match &self.0.role {
            Role::Here { actors, .. } => (*actors).max(1),
            Role::Driver(driver) => driver.workers(),
            Role::Worker { of, .. } | Role::Follower { of } => *of,
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
        let state = self.0.parts.now(LEARNER);
        team.meet(state.ok_or(RlError::Order { call: "several learners", needs: "a plan with a learner" })?)
    }

    pub(crate) fn team(&self) -> Option<&Team> {
        self.0.team.as_deref()
    }

    /// A worker of the run, with its share of the environments.
    pub(super) fn worker(&self, number: u32) -> Result<RolloutWorker> {
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
        self.0.parts.saved(EVALUATOR).map_or(Ok(()), |saved| worker.restore(saved))?;
        Ok(worker)
    }

    fn seated(
        &self,
        number: u32,
        purpose: Purpose,
        rows: &[Who],
        (first, of): (usize, usize),
    ) -> Result<RolloutWorker> {
        let CrewParts { policies, make, environment, spec, seed, checkpoints, weights, .. } = &*self.0;
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
        let policy = policies.policy(&Seat { spec, purpose, keys: &keys, first, of: of.max(count) })?;
        RolloutWorker::new(number, environments, policy, weights.clone(), environment)
    }

    pub(crate) fn weights(&self) -> &WeightStore {
        &self.0.weights
    }

    pub(super) fn hooks(&self) -> &RunHooks {
        &self.0.hooks
    }

    pub(crate) fn begins_anew(&self) -> bool {
        self.0.begins_anew
    }

    pub(crate) fn times(&self) -> &SharedTimes {
        &self.0.times
    }

    /// Whether the environments can [save](relive_env::Environment::save) their states, as an agent needs it that
    /// looks ahead in them.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited) with what was `expected` if they cannot.
    pub fn expect_saved_states(&self, expected: &'static str) -> Result<()> {
        let CrewParts { make, environment, seed, .. } = &*self.0;
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
        self.0.parts.save()
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
