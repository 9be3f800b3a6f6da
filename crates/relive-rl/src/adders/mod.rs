//! Turns an environment's steps into items in a replay table.

mod adder;
mod episode;
mod episode_writer;
mod n_step;
mod priority;
mod room;
mod row;
mod sequence;
mod step;
mod structured;
mod transition;
mod transition_columns;

pub use adder::Adder;
pub use episode::{EpisodeAdder, Padding};
pub use n_step::NStepReturn;
pub use priority::{Priority, PriorityFn};
pub use sequence::{EndOfEpisode, SequenceAdder};
pub use step::step_spec;
pub use structured::{StructuredAdder, n_step_configs, sequence_configs};
pub use transition::TransitionAdder;
pub use transition_columns::TransitionColumns;
