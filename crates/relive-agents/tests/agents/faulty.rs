//! An environment with faults.

use relive_env::{Action, ArraySpec, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};
use relive_rl::{Agent, PolicyContext, Purpose};
use relive_tensor::{DType, Nest};

/// Ends each episode after five steps. A test chooses its third observation, or its third reward.
pub(crate) struct Faulty {
    spec: EnvironmentSpec,
    length: u32,
    observation: f32,
    reward: f64,
    fails: bool,
    saves: bool,
}

impl Faulty {
    pub(crate) fn new(observation: f32, reward: f64, fails: bool) -> Faulty {
        let actions = ArraySpec::new("", DType::Float32, [1]).bounded(-1.0, 1.0);
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions);
        Faulty { spec, length: 0, observation, reward, fails, saves: true }
    }

    /// Returns an environment that cannot save its state.
    pub(crate) fn forgetful(self) -> Faulty {
        Faulty { saves: false, ..self }
    }

    /// Replaces the spec of observations and actions.
    pub(crate) fn with_spec(self, spec: EnvironmentSpec) -> Faulty {
        Faulty { spec, ..self }
    }

    /// Replaces the action by one discrete action.
    pub(crate) fn with_choices(mut self) -> Faulty {
        self.spec.actions = Nest::Leaf(ArraySpec::discrete("", 2));
        self
    }

    /// Replaces the action by one that the agent supports.
    pub(crate) fn for_agent(self, agent: &dyn Agent) -> Faulty {
        let takes_numbers = agent.policy(&PolicyContext::alone(&self.spec, Purpose::Training, &[])).is_ok();
        if takes_numbers { self } else { self.with_choices() }
    }
}

impl Environment for Faulty {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.length = 0;
        observation.leaf_mut::<f32>(0)?.fill(0.0);
        Ok(TimeStep::restart())
    }

    fn step(&mut self, _: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.length == 5 {
            return self.reset(observation);
        }
        self.length += 1;
        let is_third = self.length == 3;
        if is_third && self.fails {
            return Err(EnvError::Failed("the motor has stopped".to_owned()));
        }
        observation.leaf_mut::<f32>(0)?.fill(if is_third { self.observation } else { 0.5 });
        let reward = if is_third { self.reward } else { 1.0 };
        Ok(if self.length == 5 { TimeStep::termination(reward) } else { TimeStep::transition(reward) })
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.saves.then(|| self.length.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.length = state.first().map_or(0, |length| (*length).into());
        Ok(())
    }
}
