//! The errors of agents, environments and replay.

use std::borrow::Cow;

use relive_checkpoint::Error as CheckpointError;
use relive_client::Error as ReplayError;
use relive_cluster::reduce::RingError;
use relive_engine::BuildError;
use relive_env::EnvError;
use relive_flow::FlowError;
use thiserror::Error;

use crate::limits::LEARNER_SILENCE;

/// A result with [`RlError`].
pub type Result<T, E = RlError> = std::result::Result<T, E>;

/// The reason that an agent cannot continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RlError {
    /// The environment rejected an action or failed.
    #[error("environment: {0}")]
    Environment(#[from] EnvError),
    /// The replay tables are unreachable, or rejected a read or a write.
    #[error("replay: {0}")]
    Replay(#[from] ReplayError),
    /// An operator of an agent's plan failed.
    #[error("{0}")]
    Plan(#[from] FlowError),
    /// The configuration of a table is invalid.
    #[error("replay: {0}")]
    Tables(#[from] BuildError),
    /// A setting is out of range.
    #[error("{name} is {got}, but it must be {expected}")]
    Setting {
        /// The name of the setting.
        name: Cow<'static, str>,
        /// The value of the setting.
        got: String,
        /// The accepted values.
        expected: Cow<'static, str>,
    },
    /// Calls were made in the wrong order.
    #[error("{call} needs {needs}")]
    Order {
        /// The rejected call.
        call: &'static str,
        /// The call that must precede it.
        needs: &'static str,
    },
    /// The agent cannot act in this environment.
    #[error("this agent takes {expected}, but the environment has {got}")]
    Unsuited {
        /// The environments that the agent accepts.
        expected: &'static str,
        /// The corresponding part of the environment.
        got: String,
    },
    /// The environment has no demonstrator.
    #[error(
        "the environment has no demonstrator; give recorded episodes (relive rl record), or use an environment \
         with a demonstrator, such as deep_sea/0"
    )]
    NoDemonstrator,
    /// An observation, a reward or a discount is not finite, or exceeds the range of float32.
    #[error(
        "{environment}, step {step} of episode {episode}: the {place} is {value:?}, but agents learn only from \
         finite float32 numbers; fix the environment, or wrap it"
    )]
    NotFinite {
        /// The environment's name.
        environment: String,
        /// The number of the episode since the start of the actor, counted from 1.
        episode: u64,
        /// The number of the step in the episode; 0 is the first observation.
        step: u64,
        /// The place of the value: the reward, or an element of the observation.
        place: String,
        /// The value.
        value: f64,
    },
    /// A policy's extras are NaN.
    #[error("{policy} returned NaN in its extras, {place}, but agents learn only from numbers")]
    Extras {
        /// The name of the policy.
        policy: String,
        /// The index of the element, the path of its leaf, and the environment.
        place: String,
    },
    /// The learner's loss or parameters became NaN or infinite.
    #[error(
        "the loss or its gradient is not finite at learner step {step} (loss {loss}): learning has diverged; try a smaller \
         learning_rate, a max_gradient_norm, or a smaller max_abs_reward"
    )]
    Diverged {
        /// The number of the learner's step, counted from 1.
        step: u64,
        /// The loss.
        loss: f32,
    },
    /// Data that was saved, or that another process sent, is damaged or belongs to something else.
    #[error("the data of {what} is invalid: {reason}")]
    State {
        /// The expected content of the data.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// A data set with unusable content.
    #[error("{path}, array `{array}`: {reason}")]
    Dataset {
        /// The file.
        path: String,
        /// The array.
        array: String,
        /// The reason.
        reason: String,
    },
    /// Recorded episodes are missing, damaged, or from another environment.
    #[error("{path}: {reason}")]
    Recording {
        /// The folder or the file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The saved run, or the run on a server, is a different run.
    #[error("{place} has a different run: {differences}; {advice}")]
    OtherRun {
        /// The location of the run.
        place: String,
        /// The differences from the requested run.
        differences: String,
        /// A remedy, for the error's text.
        advice: &'static str,
    },
    /// A table on the server differs from the table that the run needs.
    #[error(
        "the server's table `{table}` does not fit this run: {differences}; drop it (relive table drop), \
         change it (relive table set), or use another server"
    )]
    OtherTable {
        /// The name of the table.
        table: String,
        /// The differences: actual and required settings.
        differences: String,
    },
    /// The server restarted without the run.
    #[error(
        "the server restarted without the tables {tables}, because they were not saved; start the server with \
         --checkpoint-dir and --checkpoint-tables, so that it loads its last checkpoint, and start the run \
         again"
    )]
    TablesGone {
        /// The names of the missing tables.
        tables: String,
    },
    /// A worker process of the run failed.
    #[error("worker {worker}: {text}")]
    Worker {
        /// The number of the worker.
        worker: u32,
        /// The reason that the worker sent.
        text: String,
    },
    /// The learners of a run lost contact with each other.
    #[error("learners: {0}{advice}", advice = advice(.0))]
    Learners(#[source] RingError),
    /// A node and its run have different versions of Relive.
    #[error("the run uses Relive {there}, but this node uses {here}; use the same version everywhere")]
    OtherVersion {
        /// The version of this process.
        here: String,
        /// The version of the run.
        there: String,
    },
    /// Another driver of the run is active on this server.
    #[error(
        "another driver is active for this server's run; stop it, or use another server. A killed driver \
         counts as dead after {} s without a heartbeat", LEARNER_SILENCE.as_secs()
    )]
    OtherLearner,
    /// The newest checkpoint of a run is unreadable.
    #[error(
        "the newest checkpoint cannot be read: {0}; to resume from the previous one, if there is one, move the \
         newest checkpoint-*.relive out of the folder"
    )]
    Unreadable(#[source] CheckpointError),
    /// A checkpoint of a run cannot be written or read.
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The file of a policy is damaged.
    #[error("the policy file is damaged: {reason}")]
    DamagedPolicy {
        /// The reason.
        reason: String,
    },
    /// The file is not a saved policy.
    #[error("not a saved policy: {reason}")]
    Policy {
        /// The reason.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: String,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
    /// The system starts no further thread, for example because the process has reached a limit.
    #[error("cannot start the thread {name}: {error}")]
    Thread {
        /// The name of the thread.
        name: &'static str,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
    /// Code outside Rust failed, such as a policy or a learner in Python; the caller keeps the exception.
    #[error("{0}")]
    Foreign(String),
    /// The run was [stopped](crate::run::Stop).
    #[error("the run was stopped")]
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

/// Returns a remedy.
fn advice(error: &RingError) -> &'static str {
    match error {
        RingError::Lost { .. } => {
            "; a run with checkpoints resumes from the newest one when you start it again"
        }
        _ => "",
    }
}

impl RlError {
    /// Returns the error itself or, if an operator failed, the cause of the failure.
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

    /// Creates the error for unusable recorded episodes.
    pub(crate) fn recording(path: &std::path::Path, reason: impl std::fmt::Display) -> RlError {
        RlError::Recording { path: path.display().to_string(), reason: reason.to_string() }
    }

    /// Creates the error for a setting that is out of range.
    pub fn setting(
        name: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> RlError {
        RlError::Setting { name: name.into(), got: got.to_string(), expected: expected.into() }
    }

    /// Creates the error for data that is damaged or belongs to something else.
    pub fn state(what: &'static str, reason: impl std::fmt::Display) -> RlError {
        RlError::State { what, reason: reason.to_string() }
    }
}
