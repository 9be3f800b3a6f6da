//! The state of a run's plan in a table, for observers of the run.

use std::time::{Duration, Instant};

use relive_client::Tensor;
use relive_client::blocking::Client;
use relive_flow::{Flow, Monitor};
use relive_table::TableConfig;
use serde_json::{Value, json};

use super::printable::printable_json;
use super::{StopOrders, WorkerStats, host_name};
use crate::identity::Identity;
use crate::stop::Stop;
use crate::tables::item;
use crate::times::SharedTimes;
use crate::{Result, RlError, Times};

/// The table with the newest state of the plan as its only item.
const TABLE: &str = "plan";

/// The time between two writes.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The graph of a plan, with the number of items of each operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The graph as text, for people.
    pub text: String,
    /// The graph in the Mermaid language, which notebooks and GitHub render.
    pub mermaid: String,
    /// The output of [`Monitor::to_json`].
    pub json: String,
}

impl Graph {
    pub(crate) fn of<T: Send + 'static>(plan: &Flow<T>) -> Graph {
        Graph { text: plan.show(), mermaid: plan.mermaid(), json: plan.monitor().to_json() }
    }
}

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Writes the state of the plan to its table periodically.
pub(crate) struct PlanStateWriter {
    client: Client,
    identity: Identity,
    shown: Instant,
    stop: Stop,
    times: SharedTimes,
    workers: WorkerStats,
    orders: StopOrders,
    host: String,
}

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The run is learning.
    Running,
    /// The run has completed its steps, or was stopped.
    Over,
    /// The driver has failed or has lost the server; the next driver resumes the run.
    Left,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Over => "over",
            Phase::Left => "left",
        }
    }
}

/// The progress of a run, apart from its operators.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    pub(crate) env_steps: u64,
    pub(crate) learner_steps: u64,
    /// The number of gradient steps from the weights with which workers last acted to the newest weights.
    pub(crate) version_lag: Option<u64>,
    /// The version of the newest weights.
    pub(crate) newest_version: Option<u64>,
    /// The times reported so far, apart from those in [`PlanStateWriter`].
    pub(crate) times: Times,
}

impl PlanStateWriter {
    pub(crate) fn new(
        client: &Client,
        identity: &Identity,
        stop: &Stop,
        times: &SharedTimes,
        workers: &WorkerStats,
    ) -> PlanStateWriter {
        PlanStateWriter {
            client: client.clone(),
            identity: identity.clone(),
            shown: Instant::now(),
            stop: stop.clone(),
            times: times.clone(),
            workers: workers.clone(),
            orders: StopOrders::new(client),
            host: host_name(),
        }
    }

    /// Writes the state if it is due, and checks for an order to stop.
    pub(crate) fn show_now_and_then(
        &mut self,
        plan: &Monitor,
        position: Position,
        nodes: impl FnOnce() -> Value,
    ) -> Result<()> {
        if self.shown.elapsed() < SHOW_EVERY {
            return Ok(());
        }
        self.show(plan, position, nodes, Phase::Running)?;
        if self.orders.is_stop()? {
            tracing::info!("stopping the run: requested from outside");
            self.stop.complete();
        }
        Ok(())
    }

    /// Writes the state.
    pub(crate) fn show(
        &mut self,
        plan: &Monitor,
        position: Position,
        nodes: impl FnOnce() -> Value,
        phase: Phase,
    ) -> Result<()> {
        self.shown = Instant::now();
        let operators: Value = serde_json::from_str(&plan.to_json())
            .map_err(|error| RlError::state("the graph of a plan", error))?;
        let mut times = position.times;
        times.merge(&self.times.so_far());
        let state = json!({
            "agent": self.identity.agent,
            "environment": self.identity.environment,
            "phase": phase.name(),
            "driver": {"id": self.orders.id(), "host": self.host, "pid": std::process::id()},
            "env_steps": position.env_steps,
            "learner_steps": position.learner_steps,
            "version_lag": position.version_lag,
            "time_by_part": times.seconds(),
            "operators": operators,
            "workers": self.workers.listed(position.newest_version),
            "workers_in_all": self.workers.len(),
            "nodes": nodes(),
        });
        // A driver that abandons the run has usually lost the server.
        let should_continue = || phase != Phase::Left && !self.stop.is_stopped();
        item::put(&self.client, TABLE, (&self.identity, state.to_string().as_bytes()), &should_continue)
    }
}

/// Returns the state of the plan of the run on a server, at most a second old while the run is active. It is a JSON
/// object with these fields:
///
/// * `agent` and `environment`.
/// * `phase`: `running`, `over` or `left`. The last state of a run that is over stays available. `left` means that the
///   driver has failed, and that another driver may resume the run.
/// * `env_steps` and `learner_steps`.
/// * `version_lag`: the number of gradient steps from the weights with which workers last acted to the newest weights.
/// * `time_by_part`, as in [`Summary`](crate::run::Summary).
/// * `operators`, as listed by [`Monitor::to_json`].
/// * `driver`, with `host`, `pid` and `id`.
/// * `workers`, the first thousand of `workers_in_all`. Each has its number `worker`, `env_steps`,
///   `episodes`, `restarts`, `weights_version`, `version_lag` and `seen_seconds`, the time since its last
///   message.
/// * `nodes`. Each has `name`, `host`, `address`, the running `workers` and their `places`, `restarts`,
///   `env_steps`, `weights_version`, `seen_seconds` and `state` (`up`, `silent`, `gone`).
///
/// All texts are [printable](super::printable). Returns `None` if there is no run.
///
/// # Errors
/// The server is lost, or the table's item is not an object with these fields.
pub fn look(client: &Client) -> Result<Option<String>> {
    let client = client.with_timeout(TIMEOUT);
    let info = client.server_info()?;
    if info.table(TABLE).is_none_or(|table| table.current_size == 0) {
        return Ok(None);
    }
    let samples = client.sample(TABLE, 1)?;
    let columns = samples.first().map(relive_client::Sample::columns).transpose()?.unwrap_or_default();
    let state = columns.get(1).map(Tensor::to_vec::<u8>).transpose();
    let Some(bytes) = state.map_err(|error| RlError::state(WHAT, error))? else { return Ok(None) };
    // Nodes, and anyone who has the token, can write parts of this state.
    let state = serde_json::from_slice(&bytes).map_err(|error| RlError::state(WHAT, error))?;
    Ok(Some(printable_json(state).to_string()))
}

const WHAT: &str = "the item of the table `plan`";

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_env::Environment;

    use super::*;

    #[test]
    fn an_invalid_plan_state_is_an_error_and_texts_are_made_printable() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        assert_eq!(look(&client).unwrap(), None);
        let spec = relive_env::make("catch/0", 1).unwrap().spec().clone();
        let identity = Identity::new(("none", Vec::new()), "catch/0", &spec, 1);
        let put = |state: &str| item::put(&client, TABLE, (&identity, state.as_bytes()), &|| true).unwrap();
        put(r#"{"nodes":[{"name":"\u001b[2J"}]}"#);
        assert_eq!(look(&client).unwrap().unwrap(), r#"{"nodes":[{"name":"\\u{1b}[2J"}]}"#);
        put("\u{1b}[2J");
        assert!(look(&client).unwrap_err().to_string().contains("the table `plan`"));
    }
}
