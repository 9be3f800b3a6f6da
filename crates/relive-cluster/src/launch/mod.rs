//! Starts the processes of a job: on this machine, manually, with Slurm, or with Kubernetes.
//!
//! A [`Job`] describes which programs to run, and in how many processes. A [`Launcher`] starts it. There are two kinds
//! of launchers, which differ in the result of [`Launcher::start`]:
//!
//! | Launcher | [`Launched`] | Started, watched, stopped and resized by |
//! |---|---|---|
//! | [`Processes`] | [`Running`](Launched::Running) | the program, with [`Members`] |
//! | [`Manual`], [`Slurm`], [`Kubernetes`] | [`Written`](Launched::Written) | a person or a cluster manager, with the commands in [`Written`] |
//!
//! Use [`Word::HostOf`] for the addresses of other tasks in a command line. The launcher fills them in.

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
pub use launcher::{File, Launched, Launcher, Members, Written};
pub use manual::Manual;
pub use processes::Processes;
pub use slurm::Slurm;
