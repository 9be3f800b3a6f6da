//! What can go wrong between an agent, its environment and its replay.

use std::borrow::Cow;

use relive_checkpoint::Error as CheckpointError;
use relive_client::Error as ReplayError;
use relive_cluster::reduce::RingError;
use relive_engine::BuildError;
use relive_env::EnvError;
use relive_flow::FlowError;
use thiserror::Error;

use crate::limits::LEARNER_SILENCE;

/// A result whose error is [`RlError`].
pub type Result<T, E = RlError> = std::result::Result<T, E>;

/// Why an agent cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RlError {
    /// The environment refuses an action or has failed.
    #[error("environment: {0}")]
    Environment(#[from] EnvError),
    /// The replay tables cannot be reached, or refuse what is written or asked for.
    #[error("replay: {0}")]
    Replay(#[from] ReplayError),
    /// An operator of an agent's plan has failed.
    #[error("{0}")]
    Plan(#[from] FlowError),
    /// Tables that cannot be.
    #[error("replay: {0}")]
    Tables(#[from] BuildError),
    /// A setting out of its range.
    #[error("{name} is {got}, but it must be {expected}")]
    Setting {
        /// The setting.
        name: Cow<'static, str>,
        /// What it is.
        got: String,
        /// What it may be.
        expected: Cow<'static, str>,
    },
    /// Calls in the wrong order.
    #[error("{call} needs {needs}")]
    Order {
        /// The call.
        call: &'static str,
        /// What must come before it.
        needs: &'static str,
    },
    /// An environment that this agent cannot act in.
    #[error("this agent takes {expected}, but the environment has {got}")]
    Unsuited {
        /// What it takes.
        expected: &'static str,
        /// What there is.
        got: String,
    },
    /// An environment that is to show how it is done, and cannot.
    #[error(
        "the environment has no demonstrator; give recorded episodes (relive rl record), or take an environment that has one, such as deep_sea/0"
    )]
    NoDemonstrator,
    /// An observation, a reward or a discount that nothing can be learned from: it is not finite, or beyond float32.
    #[error(
        "{environment}, step {step} of episode {episode}: the {place} is {value:?}; an agent learns from finite numbers of float32 only: mend the \
         environment, or wrap it so that it gives others"
    )]
    NotFinite {
        /// The environment's name.
        environment: String,
        /// Number of the episode, from 1 on, of this actor since it was started.
        episode: u64,
        /// Number of the step in the episode; 0: the first observation.
        step: u64,
        /// What is not finite: the reward, or a place in the observation.
        place: String,
        /// What it is.
        value: f64,
    },
    /// The learner's loss or parameters are not finite any more.
    #[error(
        "the loss or its gradient is not finite at learner step {step} (loss {loss}): learning has diverged; try a smaller \
         learning_rate, a max_gradient_norm, or a smaller max_abs_reward"
    )]
    Diverged {
        /// Number of the learner's step, from 1 on.
        step: u64,
        /// The loss that it has found.
        loss: f32,
    },
    /// A saved state that is of something else, or damaged.
    #[error("the saved state of {what} cannot be restored: {reason}")]
    State {
        /// Whose state it should be.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of recorded transitions that nothing can be learned from.
    #[error("{path}, array `{array}`: {reason}")]
    Dataset {
        /// The file.
        path: String,
        /// The array.
        array: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Recorded episodes that are not there, are damaged, or are not of the environment.
    #[error("{path}: {reason}")]
    Recording {
        /// The folder, or the file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A saved run, or one on a server, that is of something else.
    #[error("the run in {place} is another one: {differences}; {advice}")]
    OtherRun {
        /// Where it is.
        place: String,
        /// What it is of, and what was asked for.
        differences: String,
        /// What to do.
        advice: &'static str,
    },
    /// A table of a server that is not as the run needs it.
    #[error(
        "the server's table `{table}` is not as this run needs it: {differences}; drop it (relive table drop), change it (relive table set), or \
         use another server"
    )]
    OtherTable {
        /// Which.
        table: String,
        /// What it is, and what it must be.
        differences: String,
    },
    /// The server was away and has come back without the run.
    #[error(
        "the server was away and has come back without the tables {tables}: they are not saved; give it --checkpoint-dir and \
         --checkpoint-tables, so that it comes back with its last checkpoint, and begin anew"
    )]
    TablesGone {
        /// Which it had.
        tables: String,
    },
    /// A worker of the run, a process, has failed.
    #[error("worker {worker}: {text}")]
    Worker {
        /// Its number.
        worker: u32,
        /// Why, as it has told.
        text: String,
    },
    /// The learners of a run cannot go on together.
    #[error("learners: {0}{advice}", advice = advice(.0))]
    Learners(#[source] RingError),
    /// A node and the run that it joins are of different versions of Relive.
    #[error("the run is of Relive {there}, and this node of {here}: use the same version everywhere")]
    OtherVersion {
        /// That of this process.
        here: String,
        /// That of the run.
        there: String,
    },
    /// There is another driver of the run on this server.
    #[error(
        "another driver is at work on this server's run; end it, or use another server. One that was killed is held for ended after {} s \
         without a sign of it", LEARNER_SILENCE.as_secs()
    )]
    OtherLearner,
    /// The newest checkpoint of a run cannot be read.
    #[error(
        "the newest checkpoint cannot be read: {0}; move the newest checkpoint-*.relive out of the folder to go on from the one before, if there is one"
    )]
    Unreadable(#[source] CheckpointError),
    /// A checkpoint of a run cannot be written or read.
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The file of a policy that is damaged.
    #[error("the file of the policy is damaged: {reason}")]
    DamagedPolicy {
        /// What is wrong with it.
        reason: String,
    },
    /// A file that is no saved policy.
    #[error("not a saved policy: {reason}")]
    Policy {
        /// Why not.
        reason: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// Code outside of Rust, such as a policy or a learner in Python, has failed; whoever called it has kept what it
    /// raised.
    #[error("{0}")]
    Foreign(String),
    /// The run was [told to stop](crate::run::Stop).
    #[error("the run was told to stop")]
    Stopped,
}

impl From<RingError> for RlError {
    fn from(error: RingError) -> RlError {
        match error {
            RingError::Interrupted { .. } => RlError::Stopped,
            error => RlError::Learners(error),
        }
    }
}

/// What to do about it.
fn advice(error: &RingError) -> &'static str {
    match error {
        RingError::Lost { .. } => "; a run with checkpoints goes on from the newest when it is started again",
        _ => "",
    }
}

impl RlError {
    /// The error itself, or the one that made an operator of a plan fail.
    #[must_use]
    pub fn cause(&self) -> &RlError {
        match self {
            RlError::Plan(error) => {
                let cause =
                    std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<RlError>());
                cause.map_or(self, RlError::cause)
            }
            error => error,
        }
    }

    pub(crate) fn file(path: &std::path::Path, error: std::io::Error) -> RlError {
        RlError::File { path: path.display().to_string(), error }
    }

    /// Recorded episodes that nothing can be learned from.
    pub(crate) fn recording(path: &std::path::Path, reason: impl std::fmt::Display) -> RlError {
        RlError::Recording { path: path.display().to_string(), reason: reason.to_string() }
    }

    /// A setting out of its range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> RlError {
        RlError::Setting { name: name.into(), got: got.to_string(), expected: expected.into() }
    }

    /// A saved state that is of something else, or damaged.
    pub fn state(what: &'static str, reason: impl std::fmt::Display) -> RlError {
        RlError::State { what, reason: reason.to_string() }
    }
}
