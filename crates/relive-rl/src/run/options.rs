//! The options for a run.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::Engine;

use super::Checkpoints;
use crate::logging::Loggers;
use crate::plan::Hooks;
use crate::seeds::{EnvironmentUser, environment_seed};
use crate::stop::Stop;
use crate::watching::LogLines;

/// The options for a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The environment's name, for error messages and saved runs; a run can only be resumed in an environment with the
    /// same name.
    pub environment: String,
    /// The number of environment steps of all actors. The run ends with the rollout that reaches this number. With 0,
    /// and without `learner_steps`, the run begins and ends without a step, which is logged.
    pub env_steps: u64,
    /// The number of learner steps after which the run ends, even before `env_steps`; unlimited by default. A run
    /// without environment steps learns from its tables until it has taken these steps; learner steps then also
    /// schedule evaluations and checkpoints.
    pub learner_steps: Option<u64>,
    /// A folder of [recorded episodes](crate::recorded), or a file, to learn from instead of acting; none by default.
    /// The run ends after its learner steps. It can only be resumed with the same episodes, in any folder or file.
    pub data: Option<PathBuf>,
    /// The seed of all randomness. With a single thread, the same seed gives the same run.
    pub seed: u64,
    /// The number of workers in addition to the learner's thread, each a thread or, with `processes`, a process. With
    /// 0, one thread alternates between acting and learning.
    pub actors: usize,
    /// The number of concurrent learners, including this process; one by default. The other learners are processes that
    /// call [`learn`](crate::learners::learn) and need access to the run's tables, which [`watch`](Self::watch) must
    /// serve.
    pub learners: Option<u32>,
    /// Runs the actors as processes that call [`work`](crate::processes::work); threads by default.
    pub processes: Option<Processes>,
    /// Stops the run early.
    pub stop: Stop,
    /// When to evaluate the agent; never by default.
    pub evaluation: Option<Evaluation>,
    /// Where to save the run for resuming; nowhere by default. A run on a server is saved on the server, and
    /// in the server's checkpoints.
    pub checkpoints: Option<Checkpoints>,
    /// The location of an earlier run's checkpoints, a folder or one of its checkpoint files, with whose learner a new
    /// run begins; none by default. The earlier run had the same agent, observations and actions; its networks must have
    /// the same shapes, but other settings, the environment and the seed may differ. The new run gets the networks, the
    /// optimizer and the statistics of the newest checkpoint; its counters, schedules and tables begin anew. Without
    /// effect on a run that resumes from its own checkpoint.
    pub warm_start: Option<PathBuf>,
    /// Where to write the run's reports; nowhere by default. With [`checkpoints`](Self::checkpoints), the loggers'
    /// files must belong to this run only: resuming truncates them to their state at the checkpoint, since the run
    /// repeats later reports. A new run appends to them; see [`Loggers::remove_files`].
    pub loggers: Loggers,
    /// Hooks on rollouts and batches; none by default. Hooks are not saved with the run.
    pub hooks: Hooks,
    /// Called with the tables before the run begins, to serve or watch them.
    pub watch: Option<Watch>,
    /// The log lines from this process, for observers of the run; none by default.
    pub log_lines: Option<LogLines>,
    /// Called when the plan of the run is ready and workers can join.
    pub begun: Option<Begun>,
}

impl RunOptions {
    /// Returns the seed of the training environment with this number, counted from 0.
    #[must_use]
    pub fn environment_seed(&self, number: usize) -> u64 {
        environment_seed(&self.environment, self.seed, EnvironmentUser::Actor(number))
    }
}

/// A callback that is called when the plan of a run is ready.
#[derive(Clone)]
pub struct Begun(Arc<dyn Fn() + Send + Sync>);

impl Begun {
    /// Calls `begun` when the plan is ready, and again when the run restarts, for example after the loss of its server.
    #[must_use]
    pub fn new(begun: impl Fn() + Send + Sync + 'static) -> Begun {
        Begun(Arc::new(begun))
    }

    pub(crate) fn notify(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

/// Options for actors that are processes, connected through the server of the run's tables.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// The server. Without one, the tables belong to this process, and [`watch`](RunOptions::watch) must
    /// serve them.
    pub server: Option<Client>,
    /// Whether [nodes](crate::processes::host) run all actors. By default, the run expects actors that are
    /// started separately; workers of nodes are additional.
    pub by_nodes: bool,
}

impl Processes {
    /// Returns how many of the actors do not belong to nodes.
    pub(crate) fn started(&self, actors: usize) -> usize {
        if self.by_nodes { 0 } else { actors }
    }
}

/// A callback that receives the tables of a run.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(&Engine) + Send + Sync>);

impl Watch {
    /// Calls `watch` with the tables. A single-threaded run recreates its tables after each checkpoint, and then calls
    /// `watch` again.
    #[must_use]
    pub fn new(watch: impl Fn(&Engine) + Send + Sync + 'static) -> Watch {
        Watch(Arc::new(watch))
    }

    pub(crate) fn show(&self, engine: &Engine) {
        (self.0)(engine);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// When to evaluate the agent. During an evaluation, it acts without exploring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation {
    /// The number of environment steps between two evaluations, or of learner steps if the run learns from recorded
    /// data. Another evaluation follows at the end of the run; with 0, it is the only one.
    pub every: u64,
    /// The number of episodes per evaluation, at least 1.
    pub episodes: u64,
}
