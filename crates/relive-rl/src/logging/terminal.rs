//! Lines for people.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Logger;
use super::Report;
use crate::{Result, RlError};

/// Writes a line for each label, at most one per interval.
pub struct TerminalLogger {
    out: Box<dyn Write + Send>,
    every: Duration,
    written: BTreeMap<&'static str, Instant>,
}

impl TerminalLogger {
    /// Writes lines to `out`, such as stderr.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static, every: Duration) -> TerminalLogger {
        TerminalLogger { out: Box::new(out), every, written: BTreeMap::new() }
    }
}

impl Logger for TerminalLogger {
    fn write(&mut self, report: &Report) -> Result<()> {
        let (label, now) = (report.label(), Instant::now());
        if self.written.get(label).is_some_and(|last| now.duration_since(*last) < self.every) {
            return Ok(());
        }
        self.written.insert(label, now);
        let cells: Vec<_> = report.values().iter().map(|(name, value)| cell(name, *value)).collect();
        let written = writeln!(self.out, "[{label}] {}", cells.join(" | "));
        written.map_err(|error| RlError::file(Path::new("the log"), error))
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|error| RlError::file(Path::new("the log"), error))
    }
}

/// Formats whole numbers without decimals, and other numbers with three decimals.
fn cell(name: &str, value: f64) -> String {
    let name = name.replace('_', " ");
    if value.fract() == 0.0 { format!("{name} = {value}") } else { format!("{name} = {value:.3}") }
}
