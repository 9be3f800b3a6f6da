//! Trajectories: the columns of an item as slices of shared chunks.

mod builder;
mod decode;
mod error;
mod pattern;
mod row;
mod row_layout;
mod slice;
mod stored;
mod validate;

pub use builder::TrajectoryBuilder;
pub use error::TrajectoryError;
pub use row::{MAX_PACKED_BYTES, MAX_ROW_BYTES};
pub use row_layout::{Row, RowLayout};
pub use slice::{ColumnSpan, OnlySlice, Slice};
pub use stored::{Column, Trajectory};
