//! What a run is to be.

use relive_env::Environment;

use crate::Result;

/// Makes the environment of an actor, with a seed of its own.
pub type MakeEnvironment<'a> = dyn Fn(u64) -> Result<Box<dyn Environment>> + Sync + 'a;

/// What a run is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Steps in the environment, of all actors together; the episodes that then go on are played to their end.
    pub env_steps: u64,
    /// Everything random follows from it. In one thread the same seed gives the same run.
    pub seed: u64,
    /// Threads that act beside the one that learns; 0: one thread does both in turn.
    pub actors: usize,
}
