//! The positions of a transition's parts among the columns of its item.

use relive_env::EnvironmentSpec;

/// The columns of a transition, by name.
///
/// The columns are `action`, `discount`, `extras` (if there are any), `next_observation`, `observation` and `reward`,
/// each of which is a leaf or, where the environment has nests, a nest of leaves. Batches contain them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransitionColumns {
    /// The number of leaves of an action.
    pub actions: usize,
    /// The number of leaves of an observation.
    pub observations: usize,
    /// The number of leaves of the actor's extras.
    pub extras: usize,
}

impl TransitionColumns {
    /// Returns the columns for an environment.
    #[must_use]
    pub fn of(spec: &EnvironmentSpec) -> Self {
        Self { actions: spec.actions.len(), observations: spec.observations.len(), extras: 0 }
    }

    /// Returns the first column of the action.
    #[must_use]
    pub fn action(self) -> usize {
        0
    }

    /// Returns the column of the n-step discount.
    #[must_use]
    pub fn discount(self) -> usize {
        self.actions
    }

    /// Returns the first column of the extras.
    #[must_use]
    pub fn extras(self) -> usize {
        self.actions + 1
    }

    /// Returns the first column of the final observation.
    #[must_use]
    pub fn next_observation(self) -> usize {
        self.extras() + self.extras
    }

    /// Returns the first column of the initial observation.
    #[must_use]
    pub fn observation(self) -> usize {
        self.next_observation() + self.observations
    }

    /// Returns the column of the n-step return.
    #[must_use]
    pub fn reward(self) -> usize {
        self.observation() + self.observations
    }
}
