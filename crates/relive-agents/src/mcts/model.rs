//! The model in which a search looks ahead.

use relive_env::{Action, Buffer, Environment, TimeStep};
use relive_rl::{Features, Result, RlError};

/// Predicts the consequences of actions from any state to which it is restored.
pub(super) trait Model {
    /// A state of the model.
    type State;

    /// Returns the current state.
    fn save(&mut self) -> Result<Self::State>;

    /// Returns to a saved state.
    fn restore(&mut self, state: &Self::State) -> Result<()>;

    /// Takes an action. Writes the resulting observation to `observation`, as network inputs.
    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<TimeStep>;
}

/// The environment itself.
pub(super) struct Simulator<'a> {
    pub(super) environment: &'a mut dyn Environment,
    pub(super) features: &'a Features,
    /// Memory for one observation.
    pub(super) row: &'a mut Buffer,
}

impl Model for Simulator<'_> {
    type State = Vec<u8>;

    fn save(&mut self) -> Result<Vec<u8>> {
        let unsaved = || RlError::Unsuited {
            expected: "an environment that can save its state",
            got: "no state that can be saved".to_owned(),
        };
        self.environment.save().ok_or_else(unsaved)
    }

    fn restore(&mut self, state: &Vec<u8>) -> Result<()> {
        Ok(self.environment.restore(state)?)
    }

    fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<TimeStep> {
        let action = Action::Discrete(i64::try_from(action).unwrap_or(i64::MAX));
        let answer = self.environment.step(action, self.row.row_mut(0))?;
        self.features.write(self.row.row(0), observation);
        Ok(answer)
    }
}
