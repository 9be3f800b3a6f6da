//! Acts in environments, and defines the resulting rollouts.

mod evaluation_watch;
mod features;
mod finite;
mod rollout;
mod worker;

pub use features::{Features, is_image, looks_like_small_image};
pub(crate) use finite::{FiniteCheck, is_learnable};
pub use rollout::{Acted, Episode, Rollout};
pub(crate) use worker::RolloutWorker;
