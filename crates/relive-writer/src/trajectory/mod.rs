//! The public writer for steps and items.

mod create;
mod insert;
mod known_tables;
mod names;
mod options;
mod structure;
mod tuning;
mod writer;

pub use create::Windows;
pub use insert::insert;
pub use options::TrajectoryWriterOptions;
pub use writer::TrajectoryWriter;
