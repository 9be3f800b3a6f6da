//! Scores of agents by bsuite's rules: a number in `[0, 1]` for each experiment, and the mean of these numbers for each
//! tag.

mod experiments;
mod rules;
mod run;
mod summary;

pub use experiments::score;
pub use run::Run;
pub use summary::{Summary, summarize};
