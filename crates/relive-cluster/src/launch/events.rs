//! Events of a job's processes.

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;

/// The place of a process in a job, which it keeps when it is restarted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The name of the process's task.
    pub task: Arc<str>,
    /// The number of the process in the task.
    pub number: u32,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.task, self.number)
    }
}

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The place of the process.
    pub member: Member,
    /// The event.
    pub what: EventKind,
}

/// The kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A process was started, with this process id.
    Started(u32),
    /// A process has ended, or could not be started.
    Ended(Ended, Next),
}

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With exit code 0.
    Success,
    /// With another exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The process could not be started. Contains the system's error.
    NotStarted(String),
}

/// The reaction to the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is restarted.
    StartsAgain,
    /// Nothing: the process has ended successfully, or was stopped.
    Stays,
    /// The process has failed too often within the time given by [`Restart`](super::Restart), and is not restarted.
    GivenUp {
        /// The number of failures.
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
