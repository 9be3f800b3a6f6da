//! Gymnasium's classic control tasks, step for step.

mod cartpole;

pub use cartpole::{CartPole, CartPoleTask};
