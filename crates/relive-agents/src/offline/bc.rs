//! The settings of behavioral cloning.

use super::replay::Recorded;
use crate::continuous::{Body, Layers};
use crate::settings::settings;

settings! {
    /// The settings of behavioral cloning, for one discrete action or for actions that are one bounded float32 array:
    /// the policy is fitted to recorded actions with −ln π(a). The agent does not act: a run takes learner steps on the
    /// contents of its table.
    pub struct BcConfig {
        /// The number of transitions in a batch.
        pub batch_size: usize = 256,
        /// The step size of Adam.
        pub learning_rate: f32 = 1e-3,
        /// Whether observations are normalized to mean 0 and standard deviation 1, for continuous actions.
        pub normalize_observations: bool = false,
        /// The sizes of the hidden layers.
        pub hidden: Vec<usize> = vec![256, 256],
    }
}

impl BcConfig {
    /// Returns the settings for a named environment. They are always the defaults.
    #[must_use]
    pub fn for_environment(_name: &str) -> BcConfig {
        BcConfig::default()
    }

    pub(super) fn layers(&self) -> Layers<'_> {
        Layers { body: Body::Relu, hidden: &self.hidden }
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: 1.0 }
    }
}
