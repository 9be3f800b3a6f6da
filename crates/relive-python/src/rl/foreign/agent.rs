//! Agents in Python.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress, UpdatePriorities};
use relive_rl::{Agent, Policy, PolicyContext, Purpose, Result, RlError};
use relive_table::TableConfig;
use relive_tensor::Nest;

use super::Raised;
use super::experience::{Experience, TABLE};
use super::given::{GivenBatches, GivenSource};
use super::learner::ForeignLearner;
use super::policy::ForeignPolicy;
use super::rollout::Rollouts;
use super::weights::WeightArrays;
use crate::read::Presenter;
use crate::rl::spec;

/// A `relive.rl._own.AgentBridge`.
pub(in crate::rl) struct ForeignAgent {
    bridge: Py<PyAny>,
    name: String,
    settings: Vec<(String, String)>,
    experience: Experience,
    environments: usize,
    weight_arrays: WeightArrays,
    raised: Raised,
}

impl ForeignAgent {
    pub(in crate::rl) fn new(bridge: &Bound<'_, PyAny>, raised: Raised) -> PyResult<ForeignAgent> {
        let py = bridge.py();
        let experience = bridge.getattr(intern!(py, "experience"))?.cast_into::<PyDict>()?;
        Ok(ForeignAgent {
            name: bridge.getattr(intern!(py, "name"))?.extract()?,
            settings: bridge.getattr(intern!(py, "settings"))?.extract()?,
            environments: experience.get_item("environments")?.map_or(Ok(1), |count| count.extract())?,
            experience: Experience::from_python(&experience)?,
            bridge: bridge.clone().unbind(),
            weight_arrays: WeightArrays::default(),
            raised,
        })
    }

    fn foreign_policy(&self, context: &PolicyContext<'_>) -> Result<ForeignPolicy> {
        self.raised.call(|py| {
            let seeds: Vec<u64> = context.keys.iter().map(|key| key.stream().bits()).collect();
            let explores = context.purpose == Purpose::Training;
            let specs = spec::to_python(py, context.spec)?;
            let arguments = (specs, explores, seeds, context.first, context.of);
            let bridge = self.bridge.bind(py).call_method1(intern!(py, "policy"), arguments)?;
            ForeignPolicy::new(bridge, context.spec, (self.weight_arrays.clone(), self.raised.clone()))
        })
    }

    fn learner<S>(&self, crew: &Crew, converter: S) -> Result<ForeignLearner<S>> {
        self.raised.call(|py| {
            if !crew.has_learner() {
                return Ok(ForeignLearner::elsewhere(py, converter, self.raised.clone()));
            }
            let arguments = (spec::to_python(py, crew.spec())?, crew.learner_key().stream().bits());
            let bridge = self.bridge.bind(py).call_method1(intern!(py, "learner"), arguments)?;
            ForeignLearner::new(bridge, converter, self.raised.clone())
        })
    }

    /// Returns the specs of the values that policies write in addition to their actions.
    fn extras(&self, spec: &EnvironmentSpec, crew: &Crew) -> Result<Nest<ArraySpec>> {
        let keys = [crew.learner_key()];
        Ok(self.foreign_policy(&PolicyContext::alone(spec, Purpose::Training, &keys))?.extras())
    }
}

impl Agent for ForeignAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn validate(&self) -> Result<()> {
        self.experience.validate()
    }

    fn environments(&self, workers: usize) -> usize {
        self.environments.max(workers)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        self.experience.tables()
    }

    fn check_saved(&self) -> Result<()> {
        self.raised.text().map_or(Ok(()), |text| Err(RlError::Foreign(text)))
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(self.foreign_policy(context)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let extras = || self.extras(crew.spec(), crew);
        match &self.experience {
            Experience::Given => {
                let learner = crew.learner(self.learner(crew, GivenBatches)?)?;
                let source = self.raised.call(|py| self.bridge.getattr(py, intern!(py, "source")))?;
                Ok(crew.batches("data", GivenSource::new(source, self.raised.clone()))?.learn(learner))
            }
            Experience::Rollouts { steps } => {
                let extras = extras()?;
                let learner = crew.learner(self.learner(crew, Rollouts::new(crew.spec(), extras))?)?;
                Ok(crew.rollouts(*steps)?.sync()?.learn(learner))
            }
            Experience::Replay(replay) => {
                let extras = extras()?;
                let presenter = Presenter::new(replay.sequence_rows());
                let learner = crew.learner(self.learner(crew, presenter)?)?;
                let off_policy = replay.off_policy();
                let learning = off_policy.batches(crew)?.learn(learner).update_priorities(crew, TABLE);
                if replay.sequence_rows().is_some() {
                    off_policy.plan_with(crew, learning, replay.sequences(crew.spec(), &extras))
                } else {
                    off_policy.plan_with(crew, learning, replay.transitions(crew.spec(), &extras))
                }
            }
        }
    }
}
