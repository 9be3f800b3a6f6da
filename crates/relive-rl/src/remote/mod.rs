//! A run as several processes around a replay server: a learner, actors, and whoever shows what was learned.
//!
//! They need no address but the server's. Beside the agent's tables there are three more, which the learner adds: the newest parameters are the
//! one item of `variables`, episodes that were played go through the queue `episodes`, and the learner's state is the one item of `run`, so that a
//! learner that is started again goes on, and a checkpoint of the server is one of the whole run.

mod actor;
mod episodes;
mod learner;
mod tables;
mod variables;

pub use actor::{RemoteActor, act, evaluate};
pub use learner::{RemoteLearner, learn};
pub use tables::wait_for_learner;
pub use variables::{RemoteVariables, is_over};
