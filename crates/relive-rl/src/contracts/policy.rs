//! Acting in many environments at once.

use relive_env::{ArraySpec, BatchEnvironment, Buffer};
use relive_tensor::Nest;

use super::Weights;
use crate::{Result, Saveable};

/// One step of a policy in all rows of a worker's environments.
#[derive(Debug)]
pub struct ActStep<'a> {
    /// What is seen, `[rows, …]` for each leaf of the environment's observations.
    pub observations: &'a Buffer,
    /// Which rows begin an episode with that: what a policy remembers of the row is forgotten before it acts.
    pub starts: &'a [bool],
    /// What is done, `[rows, …]` for each leaf of its actions; to be written.
    pub actions: &'a mut Buffer,
    /// What else the learner gets, `[rows, …]` for each leaf of [`Policy::extras`]; to be written.
    pub extras: &'a mut Buffer,
    /// The environments themselves, for policies that [look ahead](BatchEnvironment::one) in them. None where a
    /// policy acts without them, as a saved one does.
    pub environments: Option<&'a mut dyn BatchEnvironment>,
}

/// Acts for a number of environments at once, each in its row.
///
/// What a policy does in a row depends on that row and on the [seat](super::Seat) of it alone, so that the same
/// environments give the same experience however they are shared out among workers.
pub trait Policy: Saveable + Send {
    /// Acts in every row. In rows whose episode has ended, the environment begins anew and the action is ignored;
    /// what is written to `extras` is kept there, too, since it tells of the last observation.
    ///
    /// # Errors
    /// The policy's own.
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()>;

    /// Takes over what a learner has published.
    ///
    /// # Errors
    /// They are not of this policy.
    fn load(&mut self, weights: &Weights) -> Result<()>;

    /// What it writes beside its actions, such as values and log-probabilities; nothing unless it says so.
    fn extras(&self) -> Nest<ArraySpec> {
        Nest::None
    }
}
