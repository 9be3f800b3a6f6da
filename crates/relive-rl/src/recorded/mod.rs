//! Recorded episodes: demonstrations, and data to learn from without acting.
//!
//! They are kept as what adders write: a checkpoint with a table `episodes`, whose items are whole episodes as an
//! [`EpisodeAdder`](crate::adders::EpisodeAdder) has them. Programs in Python make such a checkpoint with a server of
//! their own. Data sets of others are read from files of D4RL's layout, too: `dataset.rs` says what that is.

mod dataset;
mod episode;
mod npz;
mod saved;

pub use episode::RecordedEpisode;
pub use saved::{TABLE, load, save};
