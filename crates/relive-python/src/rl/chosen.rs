//! Agents by their names, with settings as JSON.

use std::sync::Arc;

use pyo3::prelude::*;
use relive_rl::Result;
use relive_rl::dqn::{DqnConfig, Policy};
use relive_rl::experiment::{self, Report, RunOptions, Summary};
use relive_rl::plan::{self, Agent, MakeEnvironment, SavedPolicy};

use super::raise::raise;
use super::settings;

/// An agent with its settings.
#[derive(Clone)]
pub(super) enum Chosen {
    Dqn(Box<DqnConfig>),
    /// One that is a plan.
    Planned(Arc<dyn Agent>),
}

/// What was learned.
pub(super) enum Trained {
    Dqn(Box<Policy>),
    Planned(Box<SavedPolicy>),
}

impl Chosen {
    pub(super) fn new(py: Python<'_>, agent: &str, config: &str) -> PyResult<Chosen> {
        match agent {
            "dqn" => Ok(Chosen::Dqn(Box::new(settings::of_json(config)?))),
            _ => relive_agents::from_json(agent, config)
                .map(Chosen::Planned)
                .map_err(|error| raise(py, &error)),
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Chosen::Dqn(config) => config.validate(),
            Chosen::Planned(agent) => agent.validate(),
        }
    }

    pub(super) fn train(
        &self,
        options: &RunOptions,
        make: &MakeEnvironment,
        on_report: &mut dyn FnMut(&Report),
    ) -> Result<(Summary, Trained)> {
        match self {
            Chosen::Dqn(config) => {
                let trained = experiment::train(config.as_ref(), options, make.as_ref(), on_report)?;
                let policy = Policy::of(&trained, config)?;
                Ok((trained.summary, Trained::Dqn(Box::new(policy))))
            }
            Chosen::Planned(agent) => {
                let trained = plan::train(agent, options, make, on_report)?;
                let policy = SavedPolicy::of(agent.as_ref(), &trained)?;
                Ok((trained.summary, Trained::Planned(Box::new(policy))))
            }
        }
    }
}
