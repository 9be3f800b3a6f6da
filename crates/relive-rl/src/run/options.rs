//! What a run is to be.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_engine::Engine;

use super::Checkpoints;
use crate::logging::Loggers;
use crate::plan::Hooks;
use crate::stop::Stop;
use crate::watching::LogLines;

/// What a run is to be.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The environment's name, in messages and in saved runs; a run is resumed only in an environment of the same.
    pub environment: String,
    /// Steps in the environment, of all actors together. The run ends with the rollout that reaches the number.
    pub env_steps: u64,
    /// Steps of the learner after which the run ends, if that is earlier; no bound unless set. A run that is to make
    /// no steps in the environment learns from what its tables have, until it has made these; its evaluations and
    /// checkpoints count them.
    pub learner_steps: Option<u64>,
    /// A folder of [recorded episodes](crate::recorded) to learn from instead of acting; none unless set. The run
    /// ends by the steps of its learner.
    pub data: Option<PathBuf>,
    /// Everything random follows from it. In one thread the same seed gives the same run.
    pub seed: u64,
    /// Workers that act beside the thread that learns, each a thread or, with `processes`, a process; 0: one thread
    /// does both in turn.
    pub actors: usize,
    /// Learners that learn side by side, this process among them; one unless set. The others are processes that call
    /// [`learn`](crate::learners::learn) and reach the run's tables, which [`watch`](Self::watch) has to serve.
    pub learners: Option<u32>,
    /// The actors are processes, which call [`work`](crate::processes::work); threads unless set.
    pub processes: Option<Processes>,
    /// Ends the run early.
    pub stop: Stop,
    /// Episodes between which the agent shows what it has learned; none unless set.
    pub evaluation: Option<Evaluation>,
    /// Where the run is saved on its way, to be resumed from; nowhere unless set. A run on a server is saved there,
    /// and with the server.
    pub checkpoints: Option<Checkpoints>,
    /// Where all that the run tells is written down; nowhere unless set. With [`checkpoints`](Self::checkpoints)
    /// their files must be those of this run alone: when it is resumed, they are cut back to where they were at the
    /// checkpoint, so that what it tells again is there once. A run that begins anew appends to them; see
    /// [`Loggers::begin_anew`].
    pub loggers: Loggers,
    /// Functions that see steps and batches; none unless set. What a run is resumed from has none of them.
    pub hooks: Hooks,
    /// Is shown the tables before the run begins, to serve or watch them.
    pub watch: Option<Watch>,
    /// What this process logs, for those who look at the run from outside; nothing unless set.
    pub log_lines: Option<LogLines>,
    /// Is told when the plan of the run stands, and workers have something to join.
    pub begun: Option<Begun>,
}

/// Is told when the plan of a run stands.
#[derive(Clone)]
pub struct Begun(Arc<dyn Fn() + Send + Sync>);

impl Begun {
    /// `begun` is called then; again when the run begins anew, as after the loss of its server.
    #[must_use]
    pub fn new(begun: impl Fn() + Send + Sync + 'static) -> Begun {
        Begun(Arc::new(begun))
    }

    pub(crate) fn tell(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

/// The actors of a run are processes around the server of its tables.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// The server; without one the tables are those of this process, which [`watch`](RunOptions::watch) has to serve.
    pub server: Option<Client>,
    /// Whether the actors are to be those of [nodes](crate::processes::host), and nobody starts others. Unless set,
    /// nodes have more workers than these.
    pub by_nodes: bool,
}

impl Processes {
    /// How many of so many actors are none of nodes.
    pub(crate) fn started(&self, actors: usize) -> usize {
        if self.by_nodes { 0 } else { actors }
    }
}

/// Is shown a run's tables.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(&Engine) + Send + Sync>);

impl Watch {
    /// `watch` is called with the tables; again after each checkpoint of a run in one thread, which makes them anew.
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

/// When the agent shows what it has learned, without exploring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation {
    /// Steps in the environment from one evaluation to the next; there is another one at the end.
    pub every: u64,
    /// Episodes of an evaluation.
    pub episodes: u64,
}
