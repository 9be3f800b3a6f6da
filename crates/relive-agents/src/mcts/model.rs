//! What a search looks ahead in.

use relive_env::{Action, Buffer, Environment, TimeStep};
use relive_rl::{Features, Result, RlError};

/// Tells what actions lead to, from wherever it is restored to.
pub(super) trait Model {
    /// Where it stands.
    type State;

    /// Where it stands now.
    fn save(&mut self) -> Result<Self::State>;

    /// Goes back to where it stood.
    fn restore(&mut self, state: &Self::State) -> Result<()>;

    /// Acts. The observation that this leads to is written to `observation`, as the numbers that networks read.
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
            got: "none of its state to tell".to_owned(),
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
