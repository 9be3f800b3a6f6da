//! Recorded episodes: demonstrations, and data for learning without acting.
//!
//! Episodes are stored as adders write them: in a checkpoint with a table `episodes` that has whole episodes as items,
//! in the format of an [`EpisodeAdder`](crate::adders::EpisodeAdder). Python programs create such a checkpoint with
//! their own server. External data sets can also be read from files in D4RL's layout, which `dataset.rs` describes.

mod convert;
mod dataset;
mod digest;
mod episode;
mod npz;
mod run_data;
mod saved;

pub use episode::RecordedEpisode;
pub(crate) use run_data::RunData;
pub use saved::{TABLE, load, save};
