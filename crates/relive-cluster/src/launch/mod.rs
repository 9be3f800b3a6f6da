//! Starts the processes of a job: on this machine, manually, with Slurm, or with Kubernetes.
//!
//! A [`Job`] describes which programs to run, and in how many processes. There are two ways to start it:
//!
//! | | Returns | Started, watched, stopped and resized by |
//! |---|---|---|
//! | [`Processes::run`] | [`Members`] | the program, with [`Members`] |
//! | [`Launcher::write`] of [`Manual`], [`Slurm`], [`Kubernetes`] | [`Written`] | a person or a cluster manager, with the commands in [`Written`] |
//!
//! Use [`Word::HostOf`] for the addresses of other tasks in a command line. They are filled in.

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
pub use events::{Ended, Event, EventKind, Member, Next};
pub use job::{Job, Resources, Restart, Task, Word};
pub use kubernetes::Kubernetes;
pub use launcher::{File, Launcher, Written};
pub use manual::Manual;
pub use processes::{Members, Processes};
pub use slurm::Slurm;
