//! The parts shared by IMPALA and APPO: fragments from workers that run ahead of the learner, corrected by V-trace
//! (Espeholt et al. 2018).

mod appo;
mod config;
mod corrected;
mod learner;
mod network;
mod plan;
mod policy;
mod settings;

pub use appo::AppoConfig;
pub use config::ImpalaConfig;
