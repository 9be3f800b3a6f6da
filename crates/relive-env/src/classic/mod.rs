//! Gymnasium's classic control tasks, step for step.
//!
//! With the same seed, episodes are the same as in Gymnasium after `reset(seed=seed)` and further resets without a
//! seed. Gymnasium's *terminated* is a LAST with discount 0; its *truncated*, which is the time limit, is a LAST with
//! discount 1. As in Gymnasium, continuous actions are clipped to their bounds.
//!
//! Where Gymnasium computes with numpy's scalars, results match numpy 2.

mod acrobot;
mod answer;
mod cartpole;
mod mountain_car;
mod mountain_car_continuous;
mod pendulum;

pub use acrobot::{Acrobot, AcrobotTask};
pub(crate) use answer::write;
pub use cartpole::{CartPole, CartPoleTask};
pub use mountain_car::{MountainCar, MountainCarTask};
pub use mountain_car_continuous::{MountainCarContinuous, MountainCarContinuousTask};
pub use pendulum::{Pendulum, PendulumTask};
