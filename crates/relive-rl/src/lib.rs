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
mod identity;
mod nodes;
mod policy_file;
mod remote;
mod seeds;
pub mod state;
mod stop;
mod tables;
mod threads;
mod times;

pub use acting::{Acted, Episode, Features, Rollout, is_image, looks_like_small_image};
pub use contracts::{ActStep, Learner, Learnt, Policy, PolicyContext, Purpose, Weights};
pub use error::{Result, RlError};
pub use plan::{Agent, MakeAgent, settings_of};
pub use policy_file::SavedPolicy;
pub use state::Saveable;
pub use times::{Part, Times};
