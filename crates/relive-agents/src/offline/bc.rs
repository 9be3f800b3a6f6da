//! Settings of behavioural cloning.

use serde::{Deserialize, Serialize};

use super::replay::Recorded;
use crate::continuous::{Body, Plan};

/// The settings of behavioural cloning, for one discrete action, or one array of float32 between bounds: the policy
/// is fitted to what was done, by −ln π(a). It does not act: a run of it makes steps of the learner from what its
/// table has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BcConfig {
    /// Transitions of a batch.
    pub batch_size: usize,
    /// Step size of Adam.
    pub learning_rate: f32,
    /// Whether observations are shifted and scaled to mean 0 and standard deviation 1, where actions are arrays.
    pub normalize_observations: bool,
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
}

impl Default for BcConfig {
    fn default() -> Self {
        Self { batch_size: 256, learning_rate: 1e-3, normalize_observations: false, hidden: vec![256, 256] }
    }
}

impl BcConfig {
    /// Settings for an environment by its name: the defaults, whatever it is.
    #[must_use]
    pub fn for_environment(_name: &str) -> BcConfig {
        BcConfig::default()
    }

    pub(super) fn plan(&self) -> Plan<'_> {
        Plan { body: Body::Relu, hidden: &self.hidden }
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { batch_size: self.batch_size, discount: 1.0 }
    }
}
