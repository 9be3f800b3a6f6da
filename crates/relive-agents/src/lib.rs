#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

mod a2c;
pub mod actor_critic;
mod ppo;
mod settings;
mod weights;

pub use a2c::A2cConfig;
pub use ppo::PpoConfig;
