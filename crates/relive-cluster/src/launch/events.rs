//! What happens to the processes of a job.

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;

/// A process of a job, whichever one has its place at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The name of its task.
    pub task: Arc<str>,
    /// Its number in the task.
    pub number: u32,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.task, self.number)
    }
}

/// Something that has happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whose place it had.
    pub member: Member,
    /// What has happened.
    pub what: What,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A process was started; the system calls it by this number.
    Started(u32),
    /// A process has ended, or could not be started.
    Ended(Ended, Next),
}

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By exit code 0.
    Success,
    /// By another exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It was not started; what the system says.
    NotStarted(String),
}

/// What follows when a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another one is started in its place.
    StartsAgain,
    /// Nothing: it has ended with success, or was stopped.
    Stays,
    /// It has failed so often within the time of [`Restart`](super::Restart) that no other is started.
    GivenUp {
        /// How often.
        times: u32,
    },
}

impl Ended {
    pub(super) fn of(status: ExitStatus) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(0), _) => Ended::Success,
            (Some(code), _) => Ended::Code(code),
            (None, signal) => Ended::Signal(signal.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Success => f.write_str("exit code 0"),
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
            Ended::NotStarted(text) => write!(f, "{text}"),
        }
    }
}
