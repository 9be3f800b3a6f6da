//! Jobs as instructions, and the contract of the launchers that write them.

use super::error::Result;
use super::job::Job;

/// Writes instructions for a person or a cluster manager, who start the processes of a job. This crate's tests include a
/// suite that every launcher must pass, and that [`Processes`](super::Processes) also passes.
pub trait Launcher {
    /// Returns instructions for starting a job. Each process of each task gets its command line, with its number in
    /// place of [`Word::Number`](super::Word::Number), the job's environment variables, and its token.
    ///
    /// # Errors
    /// The launcher does not support a part of the job.
    fn write(&self, job: &Job) -> Result<Written>;
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
