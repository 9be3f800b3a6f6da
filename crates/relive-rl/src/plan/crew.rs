//! The resources that a run offers to its agent's plan.

use std::path::Path;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, TableHandle};
use relive_env::{Buffer, EnvironmentSpec};
use relive_random::Key;

use super::environments::expect_alike;
use super::filling::write_all;
use super::saved_parts::{EarlierLearner, LEARNER, SavePart, SavedParts};
use super::{MakeEnvironment, Rows, RunHooks, SharedLearner};
use crate::acting::RolloutWorker;
use crate::adders::Adder;
use crate::contracts::{MakePolicy, WeightStore};
use crate::identity::Identity;
use crate::recorded::{self, RecordedEpisode, RunData};
use crate::remote::{Driver, Layouts, Team, WorkerOutput};
use crate::seeds::{EnvironmentUser, actor_key, environment_seed, learner_key};
use crate::stop::Stop;
use crate::times::SharedTimes;
use crate::{Learner, PolicyContext, Purpose, Result, RlError};

const EVALUATOR: &str = "evaluator";

/// The workers and the learner of a run, as seen by its plan. Clones are cheap.
#[derive(Clone)]
pub struct Crew(Arc<CrewParts>);

pub(crate) struct CrewParts {
    /// Creates the agent's policies.
    pub(crate) policies: Arc<dyn MakePolicy>,
    pub(crate) make: MakeEnvironment,
    pub(crate) environment: String,
    pub(crate) spec: EnvironmentSpec,
    pub(crate) seed: u64,
    pub(crate) role: Role,
    pub(crate) env_steps: u64,
    /// The recorded episodes to learn from instead of acting.
    pub(crate) data: Option<RunData>,
    /// The [generation] of this process's workers.
    ///
    /// [generation]: crate::seeds::generation
    pub(crate) generation: u64,
    /// Whether the run has a saved state, so that the tables that it fills at its start are filled.
    pub(crate) is_resumed: bool,
    /// Whether the environments reset after each checkpoint, because they cannot save their state.
    pub(crate) begins_anew: bool,
    pub(crate) weights: WeightStore,
    pub(crate) parts: SavedParts,
    /// The state of an earlier run's learner, with which the learner begins.
    pub(crate) earlier_learner: Option<EarlierLearner>,
    pub(crate) client: Client,
    /// The times of operators in this process, apart from the operators of workers.
    pub(crate) times: SharedTimes,
    /// Hooks on the run's rollouts and batches.
    pub(crate) hooks: RunHooks,
    /// Whether the run should end early.
    pub(crate) stop: Stop,
    /// The run's learners, if there are several.
    pub(crate) team: Option<Arc<Team>>,
}

/// The location of the workers of a run, and the role of this process.
pub(crate) enum Role {
    /// Everything is in this process. With no actors, the learner's thread alternates between acting and
    /// learning; otherwise each worker is a thread.
    Here { actors: usize, engine: Engine },
    /// This process learns; the workers are other processes.
    Driver(Arc<Driver>),
    /// This process is one of `of` workers, and acts with published weights.
    Worker { number: u32, of: usize, output: Arc<WorkerOutput> },
    /// This process is a learner other than learner 0. The run has `of` workers.
    Follower { of: usize },
}

impl CrewParts {
    /// Returns the parts of a new run with one learner and without a limit of steps, recorded data or hooks.
    pub(crate) fn new(
        identity: &Identity,
        role: Role,
        policies: Arc<dyn MakePolicy>,
        make: &MakeEnvironment,
        spec: EnvironmentSpec,
        client: &Client,
    ) -> CrewParts {
        CrewParts {
            policies,
            make: make.clone(),
            environment: identity.environment.clone(),
            spec,
            seed: identity.seed,
            role,
            env_steps: u64::MAX,
            data: None,
            generation: 0,
            is_resumed: false,
            begins_anew: false,
            weights: WeightStore::default(),
            parts: SavedParts::default(),
            earlier_learner: None,
            client: client.clone(),
            times: SharedTimes::default(),
            hooks: RunHooks::default(),
            stop: Stop::new(),
            team: None,
        }
    }
}

impl Crew {
    pub(crate) fn new(inner: CrewParts) -> Crew {
        Crew(Arc::new(inner))
    }

    /// Returns the spec of the environments.
    #[must_use]
    pub fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    pub(super) fn role(&self) -> &Role {
        &self.0.role
    }

    /// Returns the layout of the workers' rows.
    pub(super) fn layouts(&self) -> Result<Layouts> {
        Layouts::of(self.0.policies.as_ref(), &self.0.spec, self.0.seed)
    }

    /// Returns the seed of the learner's randomness.
    #[must_use]
    pub fn learner_key(&self) -> Key {
        learner_key(self.0.seed)
    }

    /// Returns the run's total of environment steps.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        self.0.env_steps
    }

    /// Returns the total number of environments of all workers.
    #[must_use]
    pub fn environments(&self) -> usize {
        self.0.policies.environments(self.workers())
    }

    /// Shares the learner among the operators of the plan. The learner's state is saved with the run, and restored if
    /// the run is resumed.
    ///
    /// # Errors
    /// [`State`](RlError::State): the saved state does not belong to this kind of learner.
    pub fn learner<L: Learner + 'static>(&self, mut learner: L) -> Result<SharedLearner<L>> {
        if let Some(saved) = self.0.parts.saved(LEARNER) {
            learner.restore(saved)?;
        } else if let Some(earlier) = &self.0.earlier_learner {
            earlier.warm_start(&mut learner)?;
        }
        if let Some(team) = &self.0.team {
            if matches!(self.0.role, Role::Follower { .. }) {
                learner.restore(&team.state()?)?;
            }
            learner.share(team.peers.clone())?;
        }
        // A worker's process needs a learner for the operators that precede the driver's, but only the driver's learner
        // publishes weights.
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

    /// Saves the state of a worker's unfinished episodes together with the run. Workers in threads or processes are at
    /// a different point when the run is saved, and therefore restart their episodes; so do environments that cannot be
    /// saved.
    pub(super) fn keep_of_episodes(&self, name: &str, save_part: SavePart) {
        if self.acts_in_turn() && !self.0.begins_anew {
            self.0.parts.keep(name, save_part);
        }
    }

    /// Saves state that does not belong to a worker, together with the run.
    pub(super) fn keep_of_run(&self, name: &str, save_part: SavePart) {
        self.0.parts.keep(name, save_part);
    }

    /// From now on, saves the current state of a part together with the run.
    pub(crate) fn keep(&self, name: &str, state: Vec<u8>) {
        self.0.parts.keep(name, Box::new(move || Some(state.clone())));
    }

    /// From now on, saves nothing together with the run.
    pub(crate) fn forget_parts(&self) {
        self.0.parts.forget();
    }

    /// Returns the saved state of the part with the given name, if there is one.
    pub(crate) fn saved(&self, name: &str) -> Option<&[u8]> {
        self.0.parts.saved(name)
    }

    /// Returns the saved state of a part that belongs to a worker. Workers in threads or processes start over instead.
    pub(super) fn saved_of_worker(&self, name: &str) -> Option<&[u8]> {
        if self.acts_in_turn() { self.saved(name) } else { None }
    }

    /// Returns the folder of recorded episodes to learn from instead of acting, or `None` for a run that acts.
    #[must_use]
    pub fn data(&self) -> Option<&Path> {
        self.0.data.as_ref().map(RunData::path)
    }

    /// Loads the recorded episodes of a folder.
    ///
    /// # Errors
    /// The episodes cannot be read, or do not fit the environment.
    pub fn recorded(&self, folder: &Path) -> Result<Vec<RecordedEpisode>> {
        let loaded = self.0.data.as_ref().and_then(|data| data.take(folder));
        loaded.map_or_else(|| recorded::load(folder, &self.0.spec), Ok)
    }

    /// Frees the run's recorded episodes if the plan has not needed them.
    pub(crate) fn free_data(&self) {
        self.0.data.iter().for_each(RunData::free);
    }

    /// Plays `episodes` episodes with the environment's own demonstrator.
    ///
    /// # Errors
    /// [`NoDemonstrator`](RlError::NoDemonstrator).
    pub fn demonstrated(&self, episodes: usize) -> Result<Vec<RecordedEpisode>> {
        let CrewParts { make, environment, seed, .. } = &*self.0;
        let seeds = [environment_seed(environment, *seed, EnvironmentUser::Demonstrator)];
        let mut made =
            make.rows(Rows { first: 0, seeds: &seeds, generation: 0, purpose: Purpose::Training })?;
        // Environments that exist only as a group cannot be queried one by one.
        let demonstrator = made.one(0).ok_or(RlError::NoDemonstrator)?;
        (0..episodes).map(|_| RecordedEpisode::demonstrated(demonstrator)).collect()
    }

    /// Writes episodes to a table through an adder, with zeros as the policy's extras. If the run is resumed, the table
    /// already has them, and `episodes` is not called. A run on a server that was interrupted before it saved its state
    /// may have left some of the items; they are removed first. If the run should end, the table remains empty.
    ///
    /// # Errors
    /// There is no such table, or the episodes cannot be obtained or written.
    pub fn fill(
        &self,
        table: &str,
        adder: &mut dyn Adder,
        episodes: impl FnOnce() -> Result<Vec<RecordedEpisode>>,
    ) -> Result<()> {
        if matches!(self.0.role, Role::Worker { .. } | Role::Follower { .. }) {
            return Ok(());
        }
        let info = self.0.client.server_info()?;
        if info.table(table).is_some_and(|found| found.current_size > 0) {
            if self.0.is_resumed {
                return Ok(());
            }
            tracing::info!("table {table:?} has items of an interrupted start: emptying it");
            self.0.client.reset(table)?;
        }
        let extras = Buffer::for_nest(&self.layouts()?.extras, 1)?;
        if !write_all(&episodes()?, adder, extras.view(), &self.0.stop)? {
            self.0.client.reset(table)?;
        }
        Ok(())
    }

    /// Returns the client for the tables.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns the table with the given name if the learner's thread also acts, and therefore must not wait for the
    /// table.
    pub(super) fn table_in_turn(&self, name: &str) -> Result<Option<TableHandle>> {
        let Role::Here { actors: 0, engine } = &self.0.role else { return Ok(None) };
        let unknown = |_| RlError::setting("the table of a plan", name, "one of the agent's tables");
        engine.table(name).map(Some).map_err(unknown)
    }

    /// Returns whether one thread alternates between acting and learning.
    #[must_use]
    pub fn acts_in_turn(&self) -> bool {
        matches!(self.0.role, Role::Here { actors: 0, .. })
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        match &self.0.role {
            Role::Here { actors, .. } => (*actors).max(1),
            Role::Driver(driver) => driver.workers(),
            Role::Worker { of, .. } | Role::Follower { of } => *of,
        }
    }

    /// Returns whether this process has a learner. A worker's process does not: it builds the plan to find the worker's
    /// part of it.
    #[must_use]
    pub fn has_learner(&self) -> bool {
        !matches!(self.0.role, Role::Worker { .. })
    }

    /// Returns the number of learners, each of which samples its own batches.
    #[must_use]
    pub fn learners(&self) -> usize {
        self.0.team.as_ref().map_or(1, |team| index(team.peers.count()))
    }

    /// Waits for all learners; the other learners receive the state of this one.
    pub(crate) fn meet(&self) -> Result<()> {
        let Some(team) = &self.0.team else { return Ok(()) };
        let state = self.0.parts.now(LEARNER);
        team.meet(state.ok_or(RlError::Order { call: "several learners", needs: "a plan with a learner" })?)
    }

    pub(crate) fn team(&self) -> Option<&Team> {
        self.0.team.as_deref()
    }

    /// Creates a worker of the run, with its share of the environments. An excess worker has as many environments of its
    /// own.
    pub(super) fn worker(&self, number: u32) -> Result<RolloutWorker> {
        let (workers, total) = (self.workers(), self.environments());
        if workers > total {
            return Err(RlError::setting(
                "actors",
                workers,
                "at most the number of environments of the agent",
            ));
        }
        let rows = share(index(number), workers, total);
        // An excess worker explores like one of the others.
        let first = (rows.start % total).min(total - rows.len());
        let rows: Vec<_> = rows.map(EnvironmentUser::Actor).collect();
        self.rollout_worker(number, Purpose::Training, &rows, (first, total))
    }

    /// Creates a worker for evaluation.
    pub(crate) fn evaluator(&self) -> Result<RolloutWorker> {
        let mut worker =
            self.rollout_worker(0, Purpose::Evaluation, &[EnvironmentUser::Evaluator], (0, 1))?;
        self.0.parts.saved(EVALUATOR).map_or(Ok(()), |saved| worker.restore(saved))?;
        Ok(worker)
    }

    fn rollout_worker(
        &self,
        number: u32,
        purpose: Purpose,
        rows: &[EnvironmentUser],
        (first, of): (usize, usize),
    ) -> Result<RolloutWorker> {
        let CrewParts { policies, make, environment, spec, seed, generation, weights, .. } = &*self.0;
        let seeds: Vec<u64> = rows.iter().map(|user| environment_seed(environment, *seed, *user)).collect();
        let environments = make.rows(Rows { first, seeds: &seeds, generation: *generation, purpose })?;
        if purpose == Purpose::Evaluation {
            expect_alike(spec, environments.spec())?;
        }
        let count = environments.len();
        if purpose == Purpose::Training && count != rows.len() {
            let expected = format!("{}, its share of the agent's environments", rows.len());
            return Err(RlError::setting("the environments of a worker", count, expected));
        }
        // A worker that is not saved in checkpoints must not repeat earlier actions.
        let mut keys: Vec<Key> = rows.iter().map(|user| actor_key(*seed, *user).nth(*generation)).collect();
        let more = (keys.len()..count)
            .map(|row| actor_key(*seed, EnvironmentUser::Evaluator).child("row").nth(row as u64));
        keys.extend(more.collect::<Vec<_>>());
        let policy =
            policies.policy(&PolicyContext { spec, purpose, keys: &keys, first, of: of.max(count) })?;
        RolloutWorker::new(number, environments, policy, weights.clone(), environment)
    }

    pub(crate) fn weights(&self) -> &WeightStore {
        &self.0.weights
    }

    pub(crate) fn hooks(&self) -> &RunHooks {
        &self.0.hooks
    }

    pub(crate) fn begins_anew(&self) -> bool {
        self.0.begins_anew
    }

    pub(crate) fn times(&self) -> &SharedTimes {
        &self.0.times
    }

    /// Checks that the environments can [save](relive_env::Environment::save) their states, which an agent
    /// needs for looking ahead.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited) with `expected` if they cannot.
    pub fn expect_saved_states(&self, expected: &'static str) -> Result<()> {
        let CrewParts { make, environment, seed, .. } = &*self.0;
        let users = [
            (EnvironmentUser::Actor(0), Purpose::Training),
            (EnvironmentUser::Evaluator, Purpose::Evaluation),
        ];
        for (user, purpose) in users {
            if !make.are_saved(environment_seed(environment, *seed, user), purpose)? {
                return Err(RlError::Unsuited { expected, got: "no state that can be saved".to_owned() });
            }
        }
        Ok(())
    }

    /// Saves the states of all parts, and the state of the evaluator if there is one.
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

/// Returns the rows of a worker if `workers` workers share `total` rows. The rows of excess workers follow.
fn share(worker: usize, workers: usize, total: usize) -> std::ops::Range<usize> {
    if worker < workers {
        return worker * total / workers..(worker + 1) * total / workers;
    }
    let each = total / workers;
    let first = total.saturating_add((worker - workers).saturating_mul(each));
    first..first.saturating_add(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_workers_share_a_row() {
        for (workers, total) in [(1, 1), (2, 8), (3, 8), (4, 4)] {
            let rows: Vec<usize> =
                (0..workers + 3).flat_map(|worker| share(worker, workers, total)).collect();
            let expected: Vec<usize> = (0..total + 3 * (total / workers)).collect();
            assert_eq!(rows, expected, "{workers} workers, {total} rows");
        }
    }
}
