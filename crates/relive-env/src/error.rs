//! Errors in the communication between an agent and its environment.

use std::fmt;

/// The reason why an environment, a buffer or a spec rejected a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The spec does not allow the action. The environment is unchanged.
    #[error("action {0}")]
    Action(Box<Mismatch>),
    /// The memory does not have the observation's layout, or the spec does not allow the observation.
    #[error("observation {0}")]
    Observation(Box<Mismatch>),
    /// The spec is invalid, or its values do not fit into memory.
    #[error("spec {0}")]
    Spec(Box<Mismatch>),
    /// No environment has this setting; for example, the identifier is unknown.
    #[error("setting {0}")]
    Setting(Box<Mismatch>),
    /// The saved state does not belong to this environment.
    #[error("state {0}")]
    State(Box<Mismatch>),
    /// An external environment failed. The text is the environment's own message.
    #[error("the environment failed: {0}")]
    Failed(String),
}

impl EnvError {
    /// Converts an error about values that were checked as an observation to an error about an action.
    #[must_use]
    pub fn of_action(self) -> EnvError {
        match self {
            EnvError::Observation(mismatch) => EnvError::Action(mismatch),
            other => other,
        }
    }

    /// Adds the row of the environment that rejected the call.
    #[cold]
    pub(crate) fn in_row(self, row: usize) -> EnvError {
        let placed = |mismatch: Box<Mismatch>| {
            let path = if mismatch.path.is_empty() {
                format!("row {row}")
            } else {
                format!("row {row}/{}", mismatch.path)
            };
            Box::new(Mismatch { path, ..*mismatch })
        };
        match self {
            EnvError::Action(mismatch) => EnvError::Action(placed(mismatch)),
            EnvError::Observation(mismatch) => EnvError::Observation(placed(mismatch)),
            EnvError::Failed(text) => EnvError::Failed(format!("row {row}: {text}")),
            other => other,
        }
    }
}

/// A place, with its expected and its actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path to the leaf, such as `camera/0`; empty for the whole nest.
    pub path: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub actual: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at `{}`: ", self.path)?;
        }
        write!(f, "expected {}, got {}", self.expected, self.actual)
    }
}

impl Mismatch {
    pub(crate) fn boxed(
        path: impl fmt::Display,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Box<Self> {
        Box::new(Self { path: path.to_string(), expected: expected.to_string(), actual: actual.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_path_and_expected_and_actual_values() {
        let error = EnvError::Action(Mismatch::boxed("arm/0", "a number from 0 to 2", 3));
        assert_eq!(error.to_string(), "action at `arm/0`: expected a number from 0 to 2, got 3");
        let error = EnvError::Setting(Mismatch::boxed("", "an id", "catch/99"));
        assert_eq!(error.to_string(), "setting expected an id, got catch/99");
    }

    #[test]
    fn results_of_steps_stay_small() {
        assert!(size_of::<Result<crate::TimeStep, EnvError>>() <= 32);
    }
}
