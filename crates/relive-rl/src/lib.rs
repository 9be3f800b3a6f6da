#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

pub mod adders;
pub mod cost;
pub mod learners;
pub mod limits;
pub mod logging;
pub mod plan;
pub mod processes;
pub mod recorded;
pub mod run;
pub mod watching;

mod acting;
mod contracts;
mod error;
mod policy_file;
mod state;
mod times;

pub use acting::{Acted, Episode, Features, Rollout};
pub use contracts::{ActStep, Agent, Learner, Learnt, Policy, Purpose, Saveable, Seat, Weights, settings_of};
pub use error::{Result, RlError};
pub use policy_file::{MakeAgent, SavedPolicy};
pub use times::{Part, Times};
