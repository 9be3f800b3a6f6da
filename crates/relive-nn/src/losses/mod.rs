//! Losses, targets and returns: pure functions of slices.
//!
//! Batches are row-major; if there are numbers for each action, they are ordered by action, `[batch, actions]` or
//! `[batch, actions, atoms]`. Sequences are processed one at a time, in time order: with T transitions, `rewards[t]` is
//! r_{t+1} and `discounts[t]` is γ·d_{t+1}, the values of the step after the t-th observation.
//!
//! Losses for training return their value and write their gradient with respect to the network's outputs, ready for
//! [`Network::gradient`](crate::Network::gradient). MPO's loss is also available on the [tape](crate::tape).
//!
//! Functions panic if the slices do not match. The results of an empty batch or sequence are empty.

mod categorical;
mod dpg;
mod mpo;
mod mpo_gradient;
mod munchausen;
mod off_policy;
mod quantile;
mod returns;
mod rows;
mod scalar;
mod sequence;
mod value;
mod vtrace;

pub use categorical::{Support, categorical_double_q_targets, categorical_loss, categorical_targets};
pub use dpg::{DpgClip, deterministic_policy_gradient};
pub use mpo::{Mpo, MpoBatch, MpoDuals, MpoLoss};
pub use mpo_gradient::{MpoGradients, MpoMetrics, Normals};
pub use munchausen::{Munchausen, munchausen_targets};
pub use off_policy::{RetraceSequence, off_policy_returns, retrace_coefficients, retrace_errors};
pub use quantile::{implicit_quantile_loss, quantile_loss, quantile_targets};
pub use returns::{generalized_advantages, n_step_returns};
pub use rows::{argmax, greedy, importance_weights, softmax};
pub use scalar::{huber, huber_slope, rescale, unscale};
pub use sequence::{sequence_priority, transformed_n_step_targets, untransformed_value};
pub use value::{BatchLoss, Selected, double_q_targets, q_loss};
pub use vtrace::{VTrace, VTraceClip, vtrace};
