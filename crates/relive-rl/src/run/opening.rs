//! Opens the tables of a run, and reads the state from which it resumes.

use relive_client::blocking::Client;
use relive_engine::{Engine, EngineBuilder, Rules};
use relive_random::Key;
use relive_table::{Snapshot, TableConfig};

use super::RunOptions;
use super::counters::{self, Counters};
use crate::identity::{Comparison, Identity};
use crate::plan::{Agent, MakeEnvironment, SavedParts, for_recorded_data};
use crate::seeds::{EnvironmentUser, actor_key, environment_seed};
use crate::tables::lease::Lease;
use crate::tables::{learners, run};
use crate::watching::{log_tables, plan_table, stop_table};
use crate::{PolicyContext, Purpose, Result, remote};

/// For error messages: the place of a server's run.
const PLACE: &str = "the server's table `run`";

/// The comparison of a run with the server's run.
const COMPARISON: Comparison<'_> = Comparison {
    place: PLACE,
    saved: "the server's run",
    asked: "this run",
    advice: "use the values of the server's run to resume it, use another server, or drop the tables of that run \
             (relive table drop)",
};

/// The location of a run's tables.
pub(super) enum Tables {
    /// In this process; with the loaded snapshot if the run is resumed.
    Own(Option<Snapshot>),
    /// In this process, with the snapshot of the checkpoint that the run with this identity has just written.
    Again(Snapshot, Identity),
    /// On a server, leased by this driver. The `state`, if there is one, is newer than the server's.
    Server { client: Client, lease: Lease, state: Option<Vec<u8>> },
}

/// The opened tables of a run.
pub(super) struct Opened {
    /// The engine of the run's own tables.
    pub(super) engine: Option<Engine>,
    pub(super) client: Client,
    /// The lease on a server.
    pub(super) lease: Option<Lease>,
    /// A state that is newer than the state in the table `run`.
    newer: Option<Vec<u8>>,
    /// The number of previous checkpoints.
    pub(super) checkpoints: u64,
}

impl Opened {
    /// Opens the tables of a run.
    ///
    /// # Errors
    /// The tables cannot be opened.
    pub(super) fn of(agent: &dyn Agent, options: &RunOptions, tables: Tables) -> Result<Opened> {
        let snapshot = match tables {
            Tables::Server { client, lease, state } => {
                return Ok(Opened { engine: None, client, lease: Some(lease), newer: state, checkpoints: 0 });
            }
            Tables::Own(snapshot) => snapshot,
            Tables::Again(snapshot, _) => Some(snapshot),
        };
        let configs = configs(agent, options)?;
        let checkpoints = snapshot.as_ref().map_or(0, run::number_of_states);
        let engine = engine(options.seed, checkpoints, configs, snapshot)?;
        let client = Client::in_process(engine.clone())?;
        Ok(Opened { engine: Some(engine), client, lease: None, newer: None, checkpoints })
    }

    /// Returns the state to resume from, if there is one.
    ///
    /// # Errors
    /// The state belongs to another run.
    pub(super) fn state(&mut self, identity: &Identity) -> Result<Option<Vec<u8>>> {
        saved_state(&self.client, identity, self.newer.take())
    }

    /// Returns the counters and the parts in a state. On a server, the counters may be newer than the state.
    ///
    /// # Errors
    /// The state is damaged.
    pub(super) fn resumed(&self, state: Option<&[u8]>) -> Result<(Counters, SavedParts)> {
        let (mut counters, mut saved) = (Counters::new(), SavedParts::default());
        if let Some(bytes) = state {
            let parts;
            (counters, parts) = counters::restore_with(bytes)?;
            saved = SavedParts::from_bytes(&parts)?;
        }
        let newer = if self.engine.is_none() { run::counters(&self.client)? } else { None };
        if let Some(newer) = newer {
            counters.take_over_newer(&newer)?;
            tracing::info!("resumed from {PLACE} at step {}", counters.env_steps());
        }
        Ok((counters, saved))
    }
}

/// Returns the configurations of all tables, for a run that owns them.
fn configs(agent: &dyn Agent, options: &RunOptions) -> Result<Vec<TableConfig>> {
    let own = agent.tables()?;
    let mut all = if options.processes.is_some() {
        remote::tables_of_run(own, options.actors)
    } else {
        let own = own.into_iter();
        let mut all = match &options.data {
            Some(_) => own.map(for_recorded_data).collect::<Result<Vec<_>>>()?,
            None => own.collect(),
        };
        all.extend([run::state_table(), plan_table(), stop_table()]);
        all.extend(log_tables(0));
        all
    };
    all.extend(options.learners.map(|_| learners::table()));
    Ok(all)
}

/// Checks that the server's run, if there is one, is the requested one, and that the agent can act in the
/// environment.
pub(super) fn expect_run(
    server: &Client,
    agent: &dyn Agent,
    options: &RunOptions,
    make: &MakeEnvironment,
) -> Result<()> {
    let (environment, seed) = (options.environment.as_str(), options.seed);
    let spec = make.spec(environment_seed(environment, seed, EnvironmentUser::Actor(0)))?;
    let keys = [actor_key(seed, EnvironmentUser::Actor(0))];
    agent.policy(&PolicyContext::alone(&spec, Purpose::Training, &keys))?;
    let identity = Identity::new((agent.name(), agent.settings()), environment, &spec, seed);
    saved_state(server, &identity, None).map(drop)
}

fn engine(
    seed: u64,
    checkpoints: u64,
    tables: Vec<TableConfig>,
    snapshot: Option<Snapshot>,
) -> Result<Engine> {
    let key = Key::from_seed(seed).child("replay").nth(checkpoints);
    let builder = Engine::builder().seed(key.stream().bits());
    let builder = tables.into_iter().fold(builder, EngineBuilder::table);
    Ok(match snapshot {
        Some(snapshot) => builder.build_from(snapshot, Rules::Given)?.engine,
        None => builder.build()?,
    })
}

/// Returns the state to resume from, if there is one: `newer`, or the content of the table `run`.
fn saved_state(client: &Client, identity: &Identity, newer: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    let Some((saved, bytes)) = run::state(client)? else { return Ok(newer) };
    saved.expect(identity, COMPARISON)?;
    Ok(Some(newer.unwrap_or(bytes)))
}
