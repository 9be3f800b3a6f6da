//! The context in which a policy acts, and the factory that creates policies.

use relive_env::EnvironmentSpec;
use relive_random::Key;

use super::Policy;
use crate::Result;

/// The environments in which a policy acts.
#[derive(Debug)]
pub struct PolicyContext<'a> {
    /// The spec of the environments.
    pub spec: &'a EnvironmentSpec,
    /// Whether the policy explores.
    pub purpose: Purpose,
    /// A random key for each row, from which all randomness of the row is derived.
    pub keys: &'a [Key],
    /// The index of the worker's first row among the rows of all workers.
    pub first: usize,
    /// The total number of rows of all workers.
    pub of: usize,
}

impl<'a> PolicyContext<'a> {
    /// Returns the context of a single worker.
    #[must_use]
    pub fn alone(spec: &'a EnvironmentSpec, purpose: Purpose, keys: &'a [Key]) -> PolicyContext<'a> {
        PolicyContext { spec, purpose, keys, first: 0, of: keys.len() }
    }
}

/// The purpose of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The policy explores.
    Training,
    /// The policy acts without exploration.
    Evaluation,
}

/// The part of an agent that a crew uses: it creates the policies and determines the number of environments.
pub(crate) trait MakePolicy: Send + Sync {
    /// Returns the total number of environments for the given number of workers.
    fn environments(&self, workers: usize) -> usize;

    /// Creates a policy for a worker.
    ///
    /// # Errors
    /// The agent cannot act in the environment.
    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>>;
}
