#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

pub mod adders;
pub mod dqn;
pub mod experiment;
pub mod limits;
pub mod logging;
pub mod plan;
pub mod remote;
pub mod values;

mod actor;
mod agent;
mod environment_loop;
mod error;
mod features;
mod files;
mod finite;
mod state;
mod variables;

pub use actor::{Actor, Learner, Saveable};
pub use agent::{Agent, Pace, Place, Purpose};
pub use environment_loop::{EnvironmentLoop, Episode, Observer};
pub use error::{Result, RlError};
pub use features::Features;
pub use variables::{VariableSource, Variables};
