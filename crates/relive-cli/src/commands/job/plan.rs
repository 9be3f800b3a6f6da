//! A run's report about itself, as [`relive_rl::run::look`] returns it.

use std::collections::BTreeMap;

use relive_rl::run::look;
use serde::Deserialize;

use super::find::FoundJob;
use crate::failure::{Failure, Kind, Result};

/// A run in progress.
#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    pub(super) agent: String,
    pub(super) environment: String,
    pub(super) phase: Phase,
    pub(super) driver: Driver,
    pub(super) env_steps: u64,
    pub(super) learner_steps: u64,
    pub(super) version_lag: Option<u64>,
    #[serde(default)]
    pub(super) time_by_part: BTreeMap<String, f64>,
    pub(super) operators: Vec<Operator>,
    pub(super) workers: Vec<Worker>,
    pub(super) workers_in_all: usize,
    /// Set for a run with nodes.
    #[serde(default)]
    pub(super) nodes: Vec<Node>,
}

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    Running,
    Over,
    Left,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Over => "over",
            Phase::Left => "left",
        }
    }
}

/// The process that learns.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Driver {
    pub(super) id: u64,
    pub(super) host: String,
    pub(super) pid: u32,
}

/// An operator of the plan.
#[derive(Debug, Deserialize)]
pub(super) struct Operator {
    pub(super) name: String,
    pub(super) inputs: Vec<usize>,
    pub(super) shards: Option<usize>,
    pub(super) items: u64,
    pub(super) bytes: Option<u64>,
    pub(super) queued: Option<u64>,
    pub(super) errors: u64,
    pub(super) waits_s: Option<f64>,
}

/// A worker of the run.
#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    pub(super) worker: u32,
    pub(super) env_steps: u64,
    pub(super) episodes: u64,
    pub(super) restarts: u64,
    pub(super) weights_version: Option<u64>,
    pub(super) version_lag: Option<u64>,
    pub(super) seen_seconds: Option<f64>,
}

/// A machine, or a part of one, with workers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) host: String,
    pub(super) state: String,
    /// The number of running workers.
    pub(super) workers: Option<u64>,
    /// The numbers of the node's workers.
    pub(super) places: Vec<u64>,
    pub(super) restarts: u64,
    pub(super) env_steps: u64,
    pub(super) weights_version: Option<u64>,
    pub(super) seen_seconds: Option<f64>,
}

impl FoundJob {
    /// Returns the run's report and its source text, or `None` if the server has no run that reports.
    pub(super) fn plan(&self) -> Result<Option<(Plan, String)>> {
        let Some(text) = look(&self.client)? else { return Ok(None) };
        let plan = serde_json::from_str(&text);
        let plan = plan.map_err(|error| {
            Failure::text(
                Kind::Runtime,
                format!("{}: its table `plan` is from another version of Relive: {error}", self.name),
            )
        });
        Ok(Some((plan?, text)))
    }

    /// Returns the error for a server without a run.
    pub(super) fn no_run(&self) -> Failure {
        let text = "has no run of an agent; a run on processes or with --http is visible one second after it has started";
        Failure::text(Kind::Runtime, format!("{} {text}", self.name))
    }
}
