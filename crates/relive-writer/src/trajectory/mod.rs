//! The public writer for steps and items.

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
