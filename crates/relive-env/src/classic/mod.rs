//! Gymnasium's classic control tasks, step for step.
//!
//! Episodes of a seed are those of Gymnasium after `reset(seed=seed)` and further resets without a seed. Its
//! *terminated* is a LAST with discount 0, its *truncated*, the time limit, a LAST with discount 1. Actions that are
//! not discrete are clipped to their bounds, as there.
//!
//! Where Gymnasium computes with numpy's scalars, results are those of numpy 2.

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
