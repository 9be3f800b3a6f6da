//! A run between two checkpoints, or between two losses of its server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::EnvironmentSpec;
use relive_flow::Flow;
use relive_table::{Snapshot, TableConfig};
use serde_json::{Value, json};

use super::checkpoints::Folder;
use super::counters::{self, Counters};
use super::pace::ReportPace;
use super::{Evaluation, Graph, Report, Stop, Summary};
use crate::acting::RolloutWorker;
use crate::identity::Identity;
use crate::logging::{Loggers, Mark};
use crate::plan::{Agent, Crew, Progress};
use crate::remote::{Driver, Publishing, Team};
use crate::tables::lease::Lease;
use crate::tables::run;
use crate::watching::{LogWriter, Phase, PlanStateWriter, Position, WorkerStats};
use crate::{Part, Result, RlError, Weights};

/// The time between two writes of the counters to a server.
pub(super) const COUNT_EVERY: Duration = Duration::from_millis(100);

/// The part of a saved run with the lengths of its log files.
const LOGS: &str = "logs";
const WHAT: &str = "a run's logs";

/// The result of a run.
#[derive(Debug)]
pub struct Trained {
    /// The summary.
    pub summary: Summary,
    /// The learned weights.
    pub weights: Weights,
    /// The spec of the environment.
    pub spec: EnvironmentSpec,
    /// The final graph of the plan.
    pub graph: Graph,
    /// The reason why the logs or the last checkpoint could not be written; usually `None`. If the logs could not be
    /// written, the run ended early. It resumes from an earlier checkpoint.
    pub unsaved: Option<RlError>,
}

/// Called with all reports from the run; an error ends the run.
pub(super) type OnReport<'a> = &'a mut dyn FnMut(&Report) -> Result<()>;

/// A run between two checkpoints.
pub(super) struct Session {
    /// The engine of the run's own tables.
    pub(super) engine: Option<Engine>,
    pub(super) client: Client,
    pub(super) identity: Identity,
    pub(super) agent: Arc<dyn Agent>,
    pub(super) crew: Crew,
    pub(super) plan: Flow<Progress>,
    pub(super) evaluator: Option<(Evaluation, RolloutWorker)>,
    pub(super) counters: Counters,
    /// The driver of workers in processes.
    pub(super) published: Option<(Arc<Driver>, Publishing)>,
    pub(super) counted: Instant,
    pub(super) pace: ReportPace,
    /// Publishes the state of the plan for observers.
    pub(super) plan_state: Option<PlanStateWriter>,
    pub(super) workers: WorkerStats,
    /// Publishes the log of this process.
    pub(super) _log_writer: Option<LogWriter>,
    /// The last version of the weights with which workers acted.
    pub(super) acted_by: Option<u64>,
    /// Set when the run should end early; the run then no longer waits for a server that does not answer.
    pub(super) stop: Stop,
}

impl Session {
    /// Returns the progress of the run, which changes whenever there is something to save.
    pub(super) fn position(&self) -> [u64; 4] {
        self.counters.position()
    }

    /// Returns the lengths of the run's log files at the checkpoint from which it was resumed. Returns `None` for a run
    /// that was not saved, or was saved without loggers.
    pub(super) fn marks(&self) -> Result<Option<Vec<Mark>>> {
        let saved = self.crew.saved(LOGS);
        let marks =
            saved.map(|bytes| serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error)));
        marks.transpose()
    }

    /// Returns the number of gradient steps from the weights with which workers last acted to the newest weights.
    pub(super) fn version_lag(&self) -> Option<u64> {
        Some(self.newest_version()?.saturating_sub(self.acted_by?))
    }

    pub(super) fn newest_version(&self) -> Option<u64> {
        Some(self.crew.weights().newest()?.version())
    }

    /// Collects the times of operators in this process.
    fn take_times(&mut self) {
        let times = self.crew.times().take();
        self.counters.note_times(&times);
    }

    /// Writes the counters to their table on a server.
    pub(super) fn count(&mut self) -> Result<()> {
        self.counted = Instant::now();
        self.take_times();
        let counters = self.counters.save();
        run::put_counters(&self.client, (&self.identity, &counters), &|| !self.stop.is_stopped())
    }

    /// Returns the state from which the run can be resumed, apart from the tables.
    pub(super) fn state(&mut self) -> Vec<u8> {
        self.take_times();
        let evaluator = self.evaluator.as_mut().map(|(_, worker)| worker.save());
        let mut parts = self.crew.save(evaluator);
        counters::save_with(&mut self.counters, &mut parts)
    }

    /// Writes the run's state to its table.
    pub(super) fn save(&mut self) -> Result<()> {
        let state = self.state();
        self.agent.check_saved()?;
        run::put_state(&self.client, (&self.identity, &state), &|| !self.stop.is_stopped())
    }

    /// Returns whether the run's environments reset after each checkpoint.
    pub(super) fn begins_anew(&self) -> bool {
        self.crew.begins_anew()
    }

    /// Returns the number of episodes that have ended.
    pub(super) fn episodes(&self) -> u64 {
        self.counters.episodes()
    }

    /// Returns the total number of environments of all workers.
    pub(super) fn environments(&self) -> u64 {
        self.crew.environments() as u64
    }

    /// Adds the duration of a save.
    pub(super) fn note_saving(&mut self, took: Duration) {
        self.crew.times().add(Part::Save, took);
    }

    /// Writes a checkpoint. Returns its snapshot, and whether it was written. Flushes all earlier reports to the
    /// loggers' files; if this fails, there is no snapshot.
    ///
    /// # Errors
    /// The state of a part of the run cannot be saved.
    pub(super) fn checkpoint(
        &mut self,
        folder: &Folder,
        loggers: &Loggers,
    ) -> Result<(Option<Snapshot>, Result<()>)> {
        let marks = match loggers.marks() {
            Ok(marks) => serde_json::to_vec(&marks).map_err(|error| RlError::state(WHAT, error))?,
            Err(error) => return Ok((None, Err(error))),
        };
        self.crew.keep(LOGS, marks);
        self.save()?;
        let own = self.engine.as_ref();
        let own = own.ok_or(RlError::Order { call: "a checkpoint", needs: "tables in this process" })?;
        let (snapshot, written) = folder.save(own);
        Ok((Some(snapshot), written))
    }

    /// Returns the number of items available for learning: the inserts into the tables, without those required before
    /// learning starts. Without tables, returns the number of steps.
    fn inserts(&self) -> Result<u64> {
        let own = self.agent.tables()?;
        if own.is_empty() {
            return Ok(self.counters.env_steps());
        }
        let info = self.client.server_info()?;
        let of_table = |table: &TableConfig| {
            let inserts = info.table(&table.name).map_or(0, |found| found.inserts);
            u64::try_from(inserts - table.rate_limiter.min_size_to_sample).unwrap_or(0)
        };
        Ok(own.iter().map(of_table).sum())
    }

    /// Ends the run for all processes. Returns its result.
    pub(super) fn end(mut self) -> Result<Trained> {
        let weights = self.crew.weights().newest();
        let weights =
            weights.ok_or(RlError::Order { call: "the end of a run", needs: "a plan with a learner" })?;
        self.take_times();
        let (summary, graph) = (self.counters.summary(self.inserts()?), Graph::of(&self.plan));
        if self.engine.is_none() {
            self.count()?;
        }
        // This must happen before the tables are closed, because the other learners sample from them.
        self.crew.team().into_iter().for_each(Team::leave);
        let is_own = self.engine.is_some();
        self.show(Phase::Over)?;
        if let Some((driver, publishing)) = self.published.take() {
            // The plan's readers of results must end before the last results are read. The plan's threads never wait at
            // a table for long, unlike workers in this process, which wait until the tables are closed.
            self.end_plan();
            let lease = publishing.end();
            driver.end(is_own)?;
            // The lease is released so that the next driver does not need to wait.
            lease.map_or(Ok(()), Lease::release)?;
        }
        Ok(Trained { summary, weights, spec: self.crew.spec().clone(), graph, unsaved: None })
    }

    /// Ends the plan and the evaluator, which closes their environments. The run can no longer be saved.
    pub(super) fn end_plan(&mut self) {
        self.crew.forget_parts();
        self.plan = Flow::from_iter("nothing", std::iter::empty());
        self.evaluator = None;
    }

    /// Returns the progress of the run, for observers.
    pub(super) fn position_shown(&self) -> Position {
        Position {
            env_steps: self.counters.env_steps(),
            learner_steps: self.counters.learner_steps(),
            version_lag: self.version_lag(),
            newest_version: self.newest_version(),
            times: self.counters.times(),
        }
    }

    /// Publishes the final state of the run.
    fn show(&mut self, phase: Phase) -> Result<()> {
        let (position, monitor) = (self.position_shown(), self.plan.monitor());
        let nodes = || shown_nodes(self.published.as_ref());
        self.plan_state.as_mut().map_or(Ok(()), |state| state.show(&monitor, position, nodes, phase))
    }

    /// Abandons the run to the next driver, which does not need to wait. Workers wait for that driver.
    pub(super) fn abandon(mut self) {
        if let Err(error) = self.show(Phase::Left) {
            tracing::debug!("cannot mark the run as abandoned: {error}");
        }
        let lease = self.published.take().and_then(|(_, publishing)| publishing.end());
        if let Some(Err(error)) = lease.map(Lease::release) {
            // The run was usually abandoned for the same reason, which is already logged.
            tracing::debug!("cannot release the lease: {error}");
        }
    }
}

impl Drop for Session {
    /// Ends the plan's threads. In a run with workers elsewhere they never wait at a table for long, and end before the
    /// tables close; otherwise closing the tables ends their waits.
    fn drop(&mut self) {
        // Has no effect if the run has ended normally.
        self.crew.team().into_iter().for_each(|team| team.fail("the run ended with an error"));
        if let Some((_, publishing)) = self.published.take() {
            // As at a normal end, the plan's readers of results end first, and the workers notice the end of the run
            // before they lose its tables.
            self.end_plan();
            drop(publishing);
        }
        self.engine.iter().for_each(Engine::close);
    }
}

/// Returns the nodes of the run, for observers.
pub(super) fn shown_nodes(published: Option<&(Arc<Driver>, Publishing)>) -> Value {
    published.map_or_else(|| json!([]), |(driver, _)| driver.nodes().shown())
}
