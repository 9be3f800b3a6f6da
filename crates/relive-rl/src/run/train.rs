//! Runs of plans.

use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::{Engine, EngineBuilder, Rules};
use relive_env::{EnvironmentSpec, State};
use relive_flow::Flow;
use relive_random::Key;
use relive_table::{Snapshot, TableConfig};

use super::identity::Identity;
use super::kept::Kept;
use super::saved::{self, Folder};
use super::seeds::{Who, environment_seed};
use super::tally::Tally;
use super::{Evaluation, Report, RunOptions, Summary, is_due, patience};
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::plan::{Crew, Inner, MakeEnvironment, Progress};
use crate::{Agent, Result, RlError, Weights, state};

/// Learner steps from one report to the next.
const LEARNER_REPORT_EVERY: u64 = 100;

/// What a run has come to.
#[derive(Debug)]
pub struct Trained {
    /// In figures.
    pub summary: Summary,
    /// What was learned.
    pub weights: Weights,
    /// What the environment takes and gives.
    pub spec: EnvironmentSpec,
}

/// Trains an agent by its plan, and tells of it on the way.
///
/// With no [actors](RunOptions::actors) one thread acts and learns in turn, and the same seed gives the same numbers, also when the run is
/// saved, killed and resumed. Otherwise each actor is a thread. An on-policy plan gives the same numbers with any number of actors.
///
/// # Errors
/// Settings out of range, an environment that the agent cannot act in, or the first error of the plan.
pub fn train(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Trained> {
    agent.validate()?;
    let folder = options.checkpoints.as_ref().map(Folder::open).transpose()?;
    let snapshot = folder.as_ref().map_or(Ok(None), Folder::load)?;
    let is_resumed = snapshot.is_some();
    let begin = |snapshot| Run::begin(agent, options, make, snapshot, folder.as_ref());
    let mut run = begin(snapshot)?;
    if let Some(folder) = folder.as_ref().filter(|_| is_resumed) {
        folder.announce(run.tally.env_steps());
    }
    let mut is_shown = false;
    while run.tally.env_steps() < options.env_steps {
        let before = run.tally.env_steps();
        if !run.advance(options, on_report)? {
            break;
        }
        let now = run.tally.env_steps();
        is_shown = options.evaluation.is_some_and(|evaluation| is_due(evaluation.every, before, now));
        if is_shown {
            run.evaluate(on_report)?;
        }
        if let Some(folder) = folder.as_ref().filter(|folder| is_due(folder.every(), before, now)) {
            let snapshot = run.checkpoint(folder)?;
            if options.actors == 0 {
                // The run that goes on takes the same way as one that is resumed, and so gives the same numbers.
                run = begin(Some(snapshot))?;
            }
        }
    }
    if !is_shown {
        run.evaluate(on_report)?;
    }
    run.trained()
}

/// A run between two checkpoints.
struct Run {
    engine: Engine,
    client: Client,
    identity: Identity,
    crew: Crew,
    plan: Flow<Progress>,
    evaluator: Option<(Evaluation, RolloutWorker)>,
    tally: Tally,
}

impl Run {
    fn begin(
        agent: &Arc<dyn Agent>,
        options: &RunOptions,
        make: &MakeEnvironment,
        snapshot: Option<Snapshot>,
        folder: Option<&Folder>,
    ) -> Result<Run> {
        let (environment, seed) = (options.environment.clone(), options.seed);
        let first = make(environment_seed(&environment, seed, Who::Actor(0)))?;
        let spec = first.spec().clone();
        let identity = Identity::new((agent.name(), agent.settings()), &environment, &spec, seed);
        let checkpoints = snapshot.as_ref().map_or(0, saved::number);
        let tables = agent.tables()?;
        let engine = engine(seed, checkpoints, tables, snapshot)?;
        if let Some(watch) = &options.watch {
            watch.show(&engine);
        }
        let client = Client::in_process(engine.clone())?;
        let (mut tally, mut kept) = (Tally::new(), Kept::default());
        if let Some((saved, bytes)) = saved::get(&client)? {
            folder.map_or(Ok(()), |folder| folder.expect(&saved, &identity))?;
            let mut parts = Vec::new();
            state::restore("a run", &bytes, |state| visit(state, &mut tally, &mut parts))?;
            kept = Kept::from_bytes(&parts)?;
        }
        let (agent, make, weights) = (Arc::clone(agent), Arc::clone(make), WeightStore::default());
        let (actors, env_steps) = (options.actors, options.env_steps);
        let inner = Inner {
            agent,
            make,
            environment,
            spec,
            seed,
            actors,
            env_steps,
            checkpoints,
            weights,
            kept,
            engine: engine.clone(),
            client: client.clone(),
        };
        let agent = Arc::clone(&inner.agent);
        let crew = Crew::new(inner);
        let plan = agent.plan(&crew)?;
        if folder.is_some() && actors == 0 {
            crew.expect_saveable()?;
        }
        let evaluator =
            options.evaluation.map(|evaluation| Ok::<_, RlError>((evaluation, crew.evaluator()?)));
        let evaluator = evaluator.transpose()?;
        Ok(Run { engine, client, identity, crew, plan, evaluator, tally })
    }

    /// Pulls at the plan once; whether the run goes on.
    fn advance(&mut self, options: &RunOptions, on_report: &mut dyn FnMut(&Report)) -> Result<bool> {
        let Some(progress) = patience::next(&mut self.plan, &options.stop)? else { return Ok(false) };
        for acted in &progress.acted {
            self.tally.note_env_steps(acted.env_steps);
        }
        for (acted, episode) in
            progress.acted.iter().flat_map(|acted| acted.episodes.iter().map(move |e| (acted, e)))
        {
            let worker = usize::try_from(acted.worker).unwrap_or(usize::MAX);
            on_report(&Report::Actor(self.tally.note_episode(worker, episode)));
        }
        if let Some(learnt) = progress.learnt {
            let before = self.tally.learner_steps();
            self.tally.note_learnt(learnt.steps, learnt.samples);
            if is_due(LEARNER_REPORT_EVERY, before, self.tally.learner_steps()) {
                on_report(&Report::Learner(self.tally.learner_report(learnt.metrics)));
            }
        }
        Ok(true)
    }

    fn evaluate(&mut self, on_report: &mut dyn FnMut(&Report)) -> Result<()> {
        let Some((evaluation, worker)) = &mut self.evaluator else { return Ok(()) };
        let count = usize::try_from(evaluation.episodes).unwrap_or(usize::MAX);
        for episode in worker.episodes(count)? {
            on_report(&Report::Evaluator(self.tally.note_evaluation(&episode)));
        }
        Ok(())
    }

    /// Writes a checkpoint; what it holds.
    fn checkpoint(&mut self, folder: &Folder) -> Result<Snapshot> {
        let evaluator = self.evaluator.as_mut().and_then(|(_, worker)| worker.save());
        let mut parts = self.crew.save(evaluator);
        let state = state::save(|state| visit(state, &mut self.tally, &mut parts));
        saved::put(&self.client, &self.identity, &state)?;
        folder.save(&self.engine)
    }

    /// Items that could be learned from: of tables those after the ones that learning waited for, otherwise steps.
    fn inserts(&self) -> Result<u64> {
        let tables = self.crew.agent().tables()?;
        if tables.is_empty() {
            return Ok(self.tally.env_steps());
        }
        let of_table = |table: TableConfig| {
            let inserts = self.crew.table(&table.name)?.info().inserts;
            Ok(u64::try_from(inserts - table.rate_limiter.min_size_to_sample).unwrap_or(0))
        };
        tables.into_iter().map(of_table).sum()
    }

    fn trained(self) -> Result<Trained> {
        let weights = self.crew.weights().newest();
        let weights =
            weights.ok_or(RlError::Order { call: "the end of a run", needs: "a plan with a learner" })?;
        let inserts = self.inserts()?;
        Ok(Trained { summary: self.tally.summary(inserts), weights, spec: self.crew.spec().clone() })
    }
}

impl Drop for Run {
    /// Ends the waits of the plan's threads at the tables, so that the plan can end them.
    fn drop(&mut self) {
        self.engine.close();
    }
}

fn engine(
    seed: u64,
    checkpoints: u64,
    tables: Vec<TableConfig>,
    snapshot: Option<Snapshot>,
) -> Result<Engine> {
    let key = Key::from_seed(seed).child("replay").nth(checkpoints);
    let builder = Engine::builder().seed(key.stream().bits()).table(saved::table());
    let builder = tables.into_iter().fold(builder, EngineBuilder::table);
    Ok(match snapshot {
        Some(snapshot) => builder.build_from(snapshot, Rules::Given)?.engine,
        None => builder.build()?,
    })
}

fn visit(state: &mut State<'_>, tally: &mut Tally, parts: &mut Vec<u8>) {
    tally.visit(state);
    state.bytes(parts);
}
