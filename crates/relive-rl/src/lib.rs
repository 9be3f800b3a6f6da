#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

pub mod adders;
pub mod dqn;
pub mod experiment;

mod actor;
mod environment_loop;
mod error;
mod features;
mod variables;

pub use actor::{Actor, Learner};
pub use environment_loop::{EnvironmentLoop, Episode, Observer};
pub use error::{Result, RlError};
pub use features::Features;
pub use variables::Variables;
