//! The experiments of bsuite, their settings and their identifiers.

mod experiment;
mod id;
mod load;
mod settings;

pub use experiment::{Experiment, Tag};
pub use id::BsuiteId;
pub use load::load;
