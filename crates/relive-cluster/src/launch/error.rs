//! The errors of starting a job.

use std::fmt::Display;
use std::io;

/// The reason why a job, or one of its processes, cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The launcher does not support a part of the job's description.
    #[error("{what} is {actual}, but it must be {expected}")]
    Job {
        /// The part of the job.
        what: String,
        /// The value of the part.
        actual: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The system cannot start a process, or a thread that supervises it.
    #[error("{member} cannot be started: {source}")]
    Start {
        /// The process.
        member: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A result with [`LaunchError`].
pub type Result<T> = std::result::Result<T, LaunchError>;

impl LaunchError {
    pub(super) fn job(what: impl Display, actual: impl Display, expected: &'static str) -> LaunchError {
        LaunchError::Job { what: what.to_string(), actual: actual.to_string(), expected }
    }

    pub(super) fn start(member: impl Display, source: io::Error) -> LaunchError {
        LaunchError::Start { member: member.to_string(), source }
    }
}
