//! Starting the processes of a job: on this machine, by hand, by Slurm, or by Kubernetes.
//!
//! A [`Job`] says what is to run and how often. A [`Launcher`] brings that about. There are two kinds, and the type
//! of what [`Launcher::start`] returns tells them apart:
//!
//! | Launcher | [`Launched`] | Who starts, watches, stops and resizes |
//! |---|---|---|
//! | [`Processes`] | [`Running`](Launched::Running) | the program, by [`Members`] |
//! | [`Manual`], [`Slurm`], [`Kubernetes`] | [`Written`](Launched::Written) | a person or an engine, by the commands in [`Written`] |
//!
//! Addresses of other tasks are known to whoever starts a job: [`Word::HostOf`] stands for them in a command line.

mod error;
mod events;
mod job;
mod kubernetes;
mod launcher;
mod manual;
mod processes;
mod shell;
mod slurm;
mod supervisor;

pub use error::{LaunchError, Result};
pub use events::{Ended, Event, Member, Next, What};
pub use job::{Job, Resources, Restart, Task, Word};
pub use kubernetes::Kubernetes;
pub use launcher::{File, Launched, Launcher, Members, Written};
pub use manual::Manual;
pub use processes::Processes;
pub use slurm::Slurm;
