#![doc = include_str!("../docs/crate.md")]
#![forbid(unsafe_code)]

mod a2c;
mod a3c;
mod actions;
pub mod actor_critic;
mod by_name;
mod choices;
mod continuous;
mod dpg;
mod dqn;
mod epsilon_greedy;
#[cfg(doctest)]
mod flow_docs;
mod images;
mod impala;
mod mcts;
mod misfit;
mod mpo;
mod off_policy;
mod offline;
mod ppo;
mod r2d2;
mod recurrent_states;
mod sac;
mod saved;
mod setting_value;
mod settings;
mod shared_agent;
mod streams;
mod together;
mod torso;
mod variants;
pub mod weights;

pub use a2c::A2cConfig;
pub use a3c::A3cConfig;
pub use by_name::{About, NAMES, about, from_json, preset};
pub use dpg::{D4pgConfig, DdpgConfig, Td3BcConfig, Td3Config};
pub use dqn::{DqnConfig, DqnLoss};
pub use epsilon_greedy::EpsilonGreedy;
pub use impala::{AppoConfig, ImpalaConfig};
pub use mcts::{MctsConfig, MctsModel};
pub use mpo::{DmpoConfig, MpoConfig};
pub use off_policy::{Demonstrations, OffPolicy, TABLE as REPLAY_TABLE};
pub use offline::{BcConfig, BcqConfig, CqlConfig, CrrConfig, CrrWeight, IqlConfig};
pub use ppo::PpoConfig;
pub use r2d2::R2d2Config;
pub use sac::SacConfig;
pub use streams::Streams;
pub use variants::{ApexConfig, DqfdConfig, R2d3Config, RainbowConfig};
