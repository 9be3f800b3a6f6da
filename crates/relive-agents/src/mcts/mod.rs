//! MCTS: search in a model of the environment, guided by a network that learns from the search (Silver et al. 2017, as
//! in Acme).

mod agent;
mod config;
mod dynamics;
mod learner;
mod loss;
mod model;
mod network;
mod noise;
mod policy;
mod search;

pub use config::{MctsConfig, MctsModel};
