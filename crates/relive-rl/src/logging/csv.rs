//! CSV files.

use std::path::Path;

use super::Report;
use super::logger::Files;
use super::{Logger, Mark};
use crate::Result;

/// Writes `actor.csv`, `evaluator.csv` and `learner.csv` in a folder, each with a header. Appends to existing
/// files.
#[derive(Debug)]
pub struct CsvLogger(Files);

impl CsvLogger {
    /// # Errors
    /// The folder cannot be created.
    pub fn new(folder: impl AsRef<Path>) -> Result<CsvLogger> {
        Ok(CsvLogger(Files::new(folder.as_ref(), "csv")?))
    }
}

impl Logger for CsvLogger {
    fn write(&mut self, report: &Report) -> Result<()> {
        let values = report.values();
        let row = |cells: Vec<String>| cells.join(",");
        let header = || row(values.iter().map(|(name, _)| (*name).to_owned()).collect()) + "\n";
        let line = row(values.iter().map(|(_, value)| value.to_string()).collect());
        self.0.line(report.label(), header, &line)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }

    fn kind(&self) -> Option<&'static str> {
        Some(self.0.kind())
    }

    fn mark(&mut self) -> Result<Mark> {
        self.0.mark()
    }

    fn truncate(&mut self, mark: &Mark) -> Result<()> {
        self.0.truncate(mark)
    }
}
