//! Trajectories: the columns of an item as slices of shared chunks.

mod builder;
mod decode;
mod error;
mod plain;
mod stored;
mod validate;

pub use builder::TrajectoryBuilder;
pub use error::TrajectoryError;
pub use plain::{Plain, PlainLayout};
pub use stored::{Column, ColumnSpan, OnlySlice, Slice, Trajectory};
