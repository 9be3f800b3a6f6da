//! Files of JSON lines.

use std::path::Path;

use serde_json::{Map, Value};

use super::Report;
use super::logger::Files;
use super::{Logger, Mark};
use crate::Result;

/// Writes `actor.jsonl`, `evaluator.jsonl` and `learner.jsonl` in a folder, one object per line. Appends to
/// existing files.
#[derive(Debug)]
pub struct JsonLinesLogger(Files);

impl JsonLinesLogger {
    /// # Errors
    /// The folder cannot be created.
    pub fn new(folder: impl AsRef<Path>) -> Result<JsonLinesLogger> {
        Ok(JsonLinesLogger(Files::new(folder.as_ref(), "jsonl")?))
    }
}

impl Logger for JsonLinesLogger {
    fn write(&mut self, report: &Report) -> Result<()> {
        // Numbers that JSON cannot represent become null.
        let values = report.values().into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
        let line = Value::Object(values.collect::<Map<_, _>>()).to_string();
        self.0.of(report.label())?.line(&line)
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
