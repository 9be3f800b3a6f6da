//! Trajectories: the columns of an item as slices of shared chunks.

mod builder;
mod decode;
mod error;
mod stored;
mod validate;

pub use builder::TrajectoryBuilder;
pub use error::TrajectoryError;
pub use stored::{Column, ColumnSpan, OnlySlice, Slice, Trajectory};
