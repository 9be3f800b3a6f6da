//! What can go wrong between an agent, its environment and its replay.

use relive_client::Error as ReplayError;
use relive_engine::BuildError;
use relive_env::EnvError;
use thiserror::Error;

/// A result whose error is [`RlError`].
pub type Result<T, E = RlError> = std::result::Result<T, E>;

/// Why an agent cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RlError {
    /// The environment refuses an action or has failed.
    #[error("environment: {0}")]
    Environment(#[from] EnvError),
    /// The replay tables cannot be reached, or refuse what is written or asked for.
    #[error("replay: {0}")]
    Replay(#[from] ReplayError),
    /// Tables that cannot be.
    #[error("replay: {0}")]
    Tables(#[from] BuildError),
    /// A setting out of its range.
    #[error("{name} is {got}, but it must be {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it is.
        got: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Calls of an adder or an actor in the wrong order.
    #[error("{call} needs {needs}")]
    Order {
        /// The call.
        call: &'static str,
        /// What must come before it.
        needs: &'static str,
    },
    /// An environment that this agent cannot act in.
    #[error("this agent takes {expected}, but the environment has {got}")]
    Unsuited {
        /// What it takes.
        expected: &'static str,
        /// What there is.
        got: String,
    },
    /// An actor's thread has panicked; the panic was printed.
    #[error("the thread of {who} ended with a panic")]
    Panicked {
        /// Whose thread it was.
        who: String,
    },
}

impl RlError {
    pub(crate) fn setting(
        name: &'static str,
        got: impl std::fmt::Display,
        expected: &'static str,
    ) -> RlError {
        RlError::Setting { name, got: got.to_string(), expected }
    }
}
