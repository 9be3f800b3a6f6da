//! The contract of launchers.

use std::time::Duration;

use super::error::Result;
use super::events::{Event, Member};
use super::job::Job;

/// Starts the processes of jobs. The tests of this crate have a suite that every launcher passes.
pub trait Launcher {
    /// Starts a job, or says how it is started. Either way each process of each task has its words in its command
    /// line, its number in place of [`Word::Number`](super::Word::Number), the job's variables, and its token.
    ///
    /// # Errors
    /// The job has something that this launcher cannot start. Nothing of it runs then.
    fn start(&self, job: &Job) -> Result<Launched>;
}

/// A job that was handed to a launcher.
pub enum Launched {
    /// It runs.
    Running(Box<dyn Members>),
    /// What a person has to run, or to give to an engine. Nothing runs yet, and this program does not see what
    /// becomes of it.
    Written(Written),
}

/// The processes of a job that runs. They are stopped when this is dropped.
pub trait Members: Send {
    /// The host of each process.
    fn addresses(&self) -> Vec<(Member, String)>;

    /// The next event, none if there is none in time. Events of one process come in their order.
    fn watch(&mut self, timeout: Duration) -> Option<Event>;

    /// Ends all processes: those that have not ended by themselves within `grace` are killed. Returns when all have
    /// ended, which [`watch`](Self::watch) tells.
    fn stop(&mut self, grace: Duration);

    /// Gives a task so many processes: starts those that are missing, kills those of the highest numbers.
    ///
    /// # Errors
    /// There is no such task, or the number is out of range.
    fn resize(&mut self, task: &str, count: u32) -> Result<()>;
}

/// A job in the words of an engine, or of a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Files that the commands read. They belong into one folder, in which the commands are run.
    pub files: Vec<File>,
    /// Commands that start the job, in any order.
    pub start: Vec<String>,
    /// A command that shows its processes. None if nothing of this launcher can: where a process was started, it can
    /// be seen.
    pub watch: Option<String>,
    /// A command that ends it, none likewise.
    pub stop: Option<String>,
    /// A command that changes the number of processes in its last task to a `COUNT`, none likewise.
    pub resize: Option<String>,
}

/// A file of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name, without a folder.
    pub name: String,
    /// What is in it.
    pub content: String,
    /// Whether nobody else may read it: it has the job's token.
    pub is_secret: bool,
}
