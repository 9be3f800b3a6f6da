//! Logs of a run's reports: as CSV, as JSON lines, for TensorBoard, or for people.

mod csv;
mod json_lines;
mod logger;
mod mark;
mod report;
mod tensorboard;
mod terminal;

pub use csv::CsvLogger;
pub use json_lines::JsonLinesLogger;
pub use logger::{Logger, Loggers};
pub use mark::Mark;
pub use report::{EpisodeReport, LearnerReport, Report};
pub use tensorboard::TensorBoardLogger;
pub use terminal::TerminalLogger;
