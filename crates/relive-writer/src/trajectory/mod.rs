//! The writer of steps and items that users hold.

mod create;
mod insert;
mod known_tables;
mod names;
mod options;
mod structure;
mod tuning;
mod windows;
mod writer;

pub use insert::insert;
pub use options::TrajectoryWriterOptions;
pub use windows::Windows;
pub use writer::TrajectoryWriter;
