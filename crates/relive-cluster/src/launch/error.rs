//! Why a job cannot be started.

use std::fmt::Display;
use std::io;

/// Why a job, or a process of it, cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The description of the job has something that this launcher cannot start.
    #[error("{what} is {actual}, but it must be {expected}")]
    Job {
        /// The part of the job.
        what: String,
        /// What it is.
        actual: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The system does not start a process, or a thread that watches it.
    #[error("{member} cannot be started: {source}")]
    Start {
        /// Which process.
        member: String,
        /// What the system says.
        source: io::Error,
    },
}

/// The result of everything that a launcher does.
pub type Result<T> = std::result::Result<T, LaunchError>;

impl LaunchError {
    pub(super) fn job(what: impl Display, actual: impl Display, expected: &'static str) -> LaunchError {
        LaunchError::Job { what: what.to_string(), actual: actual.to_string(), expected }
    }

    pub(super) fn start(member: impl Display, source: io::Error) -> LaunchError {
        LaunchError::Start { member: member.to_string(), source }
    }
}
