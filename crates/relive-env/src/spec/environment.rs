//! The spec of a whole environment.

use relive_tensor::{DType, Nest};

use super::ArraySpec;
use crate::error::EnvError;

/// The inputs and outputs of an environment.
///
/// A reward and a discount are one number each; the element type determines their precision.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentSpec {
    /// The specs of observations.
    pub observations: Nest<ArraySpec>,
    /// The specs of actions.
    pub actions: Nest<ArraySpec>,
    /// The spec of rewards, a scalar.
    pub rewards: ArraySpec,
    /// The spec of discounts, a scalar within `[0, 1]`.
    pub discounts: ArraySpec,
}

impl EnvironmentSpec {
    /// Creates a spec with unbounded rewards and discounts in `[0, 1]`, both float64, like dm_env's defaults.
    pub fn new(observations: impl Into<Nest<ArraySpec>>, actions: impl Into<Nest<ArraySpec>>) -> Self {
        Self {
            observations: observations.into(),
            actions: actions.into(),
            rewards: ArraySpec::new("reward", DType::Float64, []),
            discounts: ArraySpec::new("discount", DType::Float64, []).bounded(0.0, 1.0),
        }
    }

    /// Checks that every leaf's spec is valid.
    ///
    /// # Errors
    /// [`EnvError::Spec`] for the first invalid leaf.
    pub fn validate(&self) -> Result<(), EnvError> {
        let scalars = [&self.rewards, &self.discounts];
        let mut leaves = self.observations.leaves().chain(self.actions.leaves()).chain(scalars);
        leaves.try_for_each(ArraySpec::validate)
    }

    /// Returns the number of discrete actions, or `None` if the action is not a single choice.
    #[must_use]
    pub fn num_actions(&self) -> Option<u32> {
        match &self.actions {
            Nest::Leaf(action) => action.num_values(),
            _ => None,
        }
    }
}
