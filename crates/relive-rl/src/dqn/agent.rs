//! DQN as an agent of values.

use relive_env::EnvironmentSpec;
use relive_nn::{Key, Params, Scratch};

use super::learning::DqnLearning;
use super::{DqnConfig, QNetwork};
use crate::Result;
use crate::experiment::identity::settings_of;
use crate::values::{ActionValues, Experience, ValueAgent, ValueLearning};

impl ValueAgent for DqnConfig {
    fn name(&self) -> &'static str {
        "dqn"
    }

    fn experience(&self) -> Experience {
        DqnConfig::experience(self)
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        self.validate_own()
    }

    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params> {
        Ok(QNetwork::new(spec, self)?.init(key))
    }

    fn values(&self, spec: &EnvironmentSpec) -> Result<Box<dyn ActionValues>> {
        let network = QNetwork::new(spec, self)?;
        Ok(Box::new(NetworkValues { network, values: Vec::new(), scratch: Scratch::default() }))
    }

    fn learning(&self, spec: &EnvironmentSpec, params: &Params) -> Result<Box<dyn ValueLearning>> {
        Ok(Box::new(DqnLearning::new(self, QNetwork::new(spec, self)?, params)))
    }
}

struct NetworkValues {
    network: QNetwork,
    values: Vec<f32>,
    scratch: Scratch,
}

impl ActionValues for NetworkValues {
    fn values<'a>(&'a mut self, params: &'a Params, row: &[f32]) -> &'a [f32] {
        let outputs = self.network.network.infer(params, row, &mut self.scratch);
        self.network.rule.values(outputs, &mut self.values)
    }
}
