//! What can go wrong between an agent and its environment.

use std::fmt;

/// Why an environment, a buffer or a spec refused something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// An action that the spec does not allow. The environment is as it was.
    #[error("action {0}")]
    Action(Box<Mismatch>),
    /// Memory that is not laid out for the observation, or an observation that its spec does not allow.
    #[error("observation {0}")]
    Observation(Box<Mismatch>),
    /// A spec that describes nothing, or nothing that fits into memory.
    #[error("spec {0}")]
    Spec(Box<Mismatch>),
    /// A setting that makes no environment, such as an identifier that nobody knows.
    #[error("setting {0}")]
    Setting(Box<Mismatch>),
    /// Saved state that is not of this environment.
    #[error("state {0}")]
    State(Box<Mismatch>),
    /// An environment from outside failed; the text is its own.
    #[error("the environment failed: {0}")]
    Failed(String),
}

impl EnvError {
    /// What is wrong with values that were looked at as an observation's, of an action.
    #[must_use]
    pub fn of_action(self) -> EnvError {
        match self {
            EnvError::Observation(mismatch) => EnvError::Action(mismatch),
            other => other,
        }
    }

    /// Says which environment refused.
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

/// What was expected where, and what there was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Way to the leaf, such as `camera/0`; empty for the whole.
    pub path: String,
    /// What would have been right.
    pub expected: String,
    /// What there was.
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
    fn errors_tell_place_and_both_sides() {
        let error = EnvError::Action(Mismatch::boxed("arm/0", "a number in 0..3", 3));
        assert_eq!(error.to_string(), "action at `arm/0`: expected a number in 0..3, got 3");
        let error = EnvError::Setting(Mismatch::boxed("", "an id", "catch/99"));
        assert_eq!(error.to_string(), "setting expected an id, got catch/99");
    }

    #[test]
    fn results_of_steps_stay_small() {
        assert!(size_of::<Result<crate::TimeStep, EnvError>>() <= 32);
    }
}
