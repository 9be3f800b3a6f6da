//! The contract of launchers.

use std::time::Duration;

use super::error::Result;
use super::events::{Event, Member};
use super::job::Job;
use super::written::Written;

/// Starts the processes of jobs. The tests of this crate have a suite that every launcher passes.
pub trait Launcher {
    /// Starts a job, or says how it is started. Either way each process of each task has its words in its command line, its number in place of
    /// [`Word::Number`](super::Word::Number), the job's variables, and its token.
    ///
    /// # Errors
    /// The job has something that this launcher cannot start. Nothing of it runs then.
    fn start(&self, job: &Job) -> Result<Launched>;
}

/// A job that was handed to a launcher.
pub enum Launched {
    /// It runs.
    Running(Box<dyn Members>),
    /// What a person has to run, or to give to an engine. Nothing runs yet, and this program does not see what becomes of it.
    Written(Written),
}

/// The processes of a job that runs. They are stopped when this is dropped.
pub trait Members: Send {
    /// The host of each process.
    fn addresses(&self) -> Vec<(Member, String)>;

    /// The next event, none if there is none in time. Events of one process come in their order.
    fn watch(&mut self, patience: Duration) -> Option<Event>;

    /// Ends all processes: those that have not ended by themselves within `grace` are killed. Returns when all have ended, which
    /// [`watch`](Self::watch) tells.
    fn stop(&mut self, grace: Duration);

    /// Gives a task so many processes: starts those that are missing, kills those of the highest numbers.
    ///
    /// # Errors
    /// There is no such task, or the number is out of range.
    fn resize(&mut self, task: &str, count: u32) -> Result<()>;
}
