//! Where a policy acts, and what makes policies.

use relive_env::EnvironmentSpec;
use relive_random::Key;

use super::Policy;
use crate::Result;

/// Where a policy acts.
#[derive(Debug)]
pub struct Seat<'a> {
    /// What the environments take and give.
    pub spec: &'a EnvironmentSpec,
    /// Whether it explores.
    pub purpose: Purpose,
    /// One for each row: everything random in the row follows from it.
    pub keys: &'a [Key],
    /// The number of the first row among those of all workers.
    pub first: usize,
    /// Rows of all workers together.
    pub of: usize,
}

impl<'a> Seat<'a> {
    /// The seat of a worker that is alone.
    #[must_use]
    pub fn alone(spec: &'a EnvironmentSpec, purpose: Purpose, keys: &'a [Key]) -> Seat<'a> {
        Seat { spec, purpose, keys, first: 0, of: keys.len() }
    }
}

/// What a policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It explores.
    Training,
    /// It shows what was learned, without exploring.
    Evaluation,
}

/// Makes the policies of an agent, and says in how many environments they act: all that a crew needs of it.
pub(crate) trait MakePolicy: Send + Sync {
    /// In how many environments the agent acts, so many workers together.
    fn environments(&self, workers: usize) -> usize;

    /// A policy for a worker.
    ///
    /// # Errors
    /// The environment is not one that the agent can act in.
    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>>;
}
