//! The contract of launchers.

use std::time::Duration;

use super::error::Result;
use super::events::{Event, Member};
use super::job::Job;

/// Starts the processes of jobs. This crate's tests include a suite that every launcher must pass.
pub trait Launcher {
    /// Starts a job, or returns instructions for starting it. In both cases, each process of each task gets its command
    /// line, with its number in place of [`Word::Number`](super::Word::Number), the job's environment variables, and
    /// its token.
    ///
    /// # Errors
    /// The launcher does not support a part of the job. In that case, no process runs.
    fn start(&self, job: &Job) -> Result<Launched>;
}

/// The result of starting a job.
pub enum Launched {
    /// The job is running.
    Running(Box<dyn Members>),
    /// Instructions for a person or a cluster manager. Nothing is running yet, and this program cannot observe the job.
    Written(Written),
}

/// The processes of a running job. Dropping this value stops the processes.
pub trait Members: Send {
    /// Returns the host of each process.
    fn addresses(&self) -> Vec<(Member, String)>;

    /// Returns the next event, or `None` if none arrives in time. Events of one process keep their order.
    fn watch(&mut self, timeout: Duration) -> Option<Event>;

    /// Stops all processes, and kills those that do not end by themselves within `grace`. Returns when all processes
    /// have ended; [`watch`](Self::watch) reports their ends.
    fn stop(&mut self, grace: Duration);

    /// Changes the number of processes in a task: starts missing processes, or kills the processes with the highest
    /// numbers.
    ///
    /// # Errors
    /// There is no such task, or the number is out of range.
    fn resize(&mut self, task: &str, count: u32) -> Result<()>;
}

/// A job as files and commands for a cluster manager or a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Files for the commands. Write them to one folder, and run the commands there.
    pub files: Vec<File>,
    /// Commands that start the job, in any order.
    pub start: Vec<String>,
    /// A command that shows the job's processes, or `None` if there is no such command.
    pub watch: Option<String>,
    /// A command that stops the job, if there is one.
    pub stop: Option<String>,
    /// A command that changes the number of processes in the last task to `COUNT`, if there is one.
    pub resize: Option<String>,
}

/// A file of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file name, without a folder.
    pub name: String,
    /// The content.
    pub content: String,
    /// Whether the file must be private, since it contains the job's token.
    pub is_secret: bool,
}
