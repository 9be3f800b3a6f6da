//! Wrappers of environments.
//!
//! Each wrapper obeys the same contract as its environment, is saved with it, and can wrap any other wrapper.

mod action_repeat;
mod canonical_spec;
mod concat_observation;
mod delayed_reward;
mod frame_stacking;
pub(crate) mod memory;
mod observation_action_reward;
mod single_precision;
mod step_limit;

pub use action_repeat::ActionRepeat;
pub use canonical_spec::CanonicalSpec;
pub use concat_observation::ConcatObservation;
pub use delayed_reward::DelayedReward;
pub use frame_stacking::FrameStacking;
pub use observation_action_reward::ObservationActionReward;
pub use single_precision::SinglePrecision;
pub use step_limit::StepLimit;
