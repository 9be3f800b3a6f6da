//! Acts in many environments at once.

use relive_env::{ArraySpec, BatchEnvironment, Buffer};
use relive_tensor::Nest;

use super::Weights;
use crate::{Result, Saveable};

/// One step of a policy in all rows of a worker's environments.
#[derive(Debug)]
pub struct ActStep<'a> {
    /// The observations, `[rows, …]` for each leaf.
    pub observations: &'a Buffer,
    /// Which rows begin an episode with this observation. Before it acts, a policy clears its memory for these rows.
    pub starts: &'a [bool],
    /// The actions, `[rows, …]` for each leaf; the policy writes them.
    pub actions: &'a mut Buffer,
    /// The extras for the learner, `[rows, …]` for each leaf of [`Policy::extras`]; the policy writes them.
    pub extras: &'a mut Buffer,
    /// The environments, for policies that [look ahead](BatchEnvironment::one). `None` if the policy acts without them,
    /// as a saved policy does.
    pub environments: Option<&'a mut dyn BatchEnvironment>,
}

/// Acts in several environments at once, one per row.
///
/// The output for a row depends only on that row and its [context](super::PolicyContext). The experience is therefore
/// independent of how environments are distributed over workers.
pub trait Policy: Saveable + Send {
    /// Acts in every row. In rows whose episode has ended, the environment resets and ignores the action, but
    /// the rollout keeps the `extras`, since they belong to the last observation.
    ///
    /// # Errors
    /// The policy's own.
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()>;

    /// Loads published weights.
    ///
    /// # Errors
    /// The weights do not belong to this policy.
    fn load(&mut self, weights: &Weights) -> Result<()>;

    /// Returns the spec of the outputs other than actions, such as values and log-probabilities; empty by default.
    /// Extras must not be NaN. Infinite extras, such as logits of masked actions, are allowed.
    fn extras(&self) -> Nest<ArraySpec> {
        Nest::None
    }

    /// Returns the policy's name in errors about its outputs.
    fn name(&self) -> &str {
        "the policy"
    }
}
