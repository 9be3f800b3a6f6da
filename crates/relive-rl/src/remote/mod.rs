//! A run as several processes around a replay server: a learner, actors, and whoever shows what was learned.
//!
//! They need no address but the server's. Beside the agent's tables there are five more, which the learner adds: the newest parameters are the
//! one item of `variables`, episodes that were played go through the queue `episodes`, the learner's state is the one item of `run`, so that a
//! learner that is started again goes on, and a checkpoint of the server is one of the whole run, the counters are the one item of
//! `counts`, and the signs of life of the learner are the one item of `learner`, so that there is one at a time.

mod actor;
mod counts;
mod episodes;
mod learner;
mod lease;
mod tables;
mod variables;
mod watch;

pub use actor::{RemoteActor, act, evaluate};
pub use learner::{RemoteLearner, learn};
pub use variables::is_over;

pub(crate) use lease::TIMES;
