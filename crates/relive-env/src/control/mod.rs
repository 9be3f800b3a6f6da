//! Swing-ups with the rewards of the Control Suite (Tassa et al. 2018). Each step earns 0 to 1, and each episode has
//! 1,000 steps and never ends earlier.
//!
//! At the time limit, an episode ends with a LAST step that has discount 1. An action is one number, clipped to `[-1,
//! 1]`. Bodies, limits, starts and rewards are the same as in the Control Suite's `cartpole`, `pendulum` and `acrobot`.
//! This crate computes the motion itself, with one step of the classical Runge-Kutta method per action. There are two
//! differences: rods are thin, and a cart stops immediately at the end of its rail, while in MuJoCo it rebounds a
//! little.

mod acrobot_swingup;
mod cartpole_swingup;
mod common;
mod pendulum_swingup;

pub use acrobot_swingup::{AcrobotSwingup, AcrobotSwingupTask};
pub use cartpole_swingup::{CartpoleSwingup, CartpoleSwingupTask};
pub use pendulum_swingup::{PendulumSwingup, PendulumSwingupTask};
