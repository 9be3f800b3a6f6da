//! Scores of agents by bsuite's rules: numbers in `[0, 1]` per experiment, and their means per tag.

mod experiments;
mod rules;
mod run;
mod summary;

pub use experiments::score;
pub use run::Run;
pub use summary::{Summary, summarize};
