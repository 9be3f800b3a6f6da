//! Swing-ups with the rewards of the Control Suite (Tassa et al. 2018): from 0 to 1 for a step, 1,000 steps an
//! episode, no end before that.
//!
//! An episode that is out of time is a LAST with discount 1. Actions are one number in `[-1, 1]`, clipped to that.
//! Bodies, limits, starts and rewards are those of the Control Suite's `cartpole`, `pendulum` and `acrobot`; the
//! motion is computed here, by the classical Runge-Kutta method with a step for each action. What differs: rods are
//! thin, and a cart that comes to the end of its rail stops there at once, where MuJoCo has it spring back a little.

mod acrobot_swingup;
mod cartpole_swingup;
mod common;
mod pendulum_swingup;

pub use acrobot_swingup::{AcrobotSwingup, AcrobotSwingupTask};
pub use cartpole_swingup::{CartpoleSwingup, CartpoleSwingupTask};
pub use pendulum_swingup::{PendulumSwingup, PendulumSwingupTask};
