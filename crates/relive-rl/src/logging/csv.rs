//! CSV files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Report;
use super::logger::Files;
use super::{Logger, Mark};
use crate::Result;

/// Writes `actor.csv`, `evaluator.csv` and `learner.csv` in a folder, each with a header. Appends to existing
/// files.
///
/// The first report of a file determines its columns. A later report may lack some of them; its cells are then empty.
/// Values that have no column are left out, and a warning is logged once for each name.
#[derive(Debug)]
pub struct CsvLogger {
    files: Files,
    columns: BTreeMap<&'static str, Vec<String>>,
    without_column: BTreeSet<&'static str>,
}

impl CsvLogger {
    /// # Errors
    /// The folder cannot be created.
    pub fn new(folder: impl AsRef<Path>) -> Result<CsvLogger> {
        let files = Files::new(folder.as_ref(), "csv")?;
        Ok(CsvLogger { files, columns: BTreeMap::new(), without_column: BTreeSet::new() })
    }

    fn warn_of_new(&mut self, label: &str, names: impl Iterator<Item = &'static str>) {
        for name in names.filter(|name| self.without_column.insert(name)) {
            tracing::warn!(
                "{label}.csv has no column for {name:?}, because its first report had no such value"
            );
        }
    }
}

impl Logger for CsvLogger {
    fn write(&mut self, report: &Report) -> Result<()> {
        let (label, values) = (report.label(), report.values());
        let file = self.files.of(label)?;
        let columns = match self.columns.entry(label) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(unknown) => {
                let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
                unknown.insert(file.columns(&names)?)
            }
        };
        let value_of = |name: &String| values.iter().find(|(known, _)| known == name);
        let cells = columns.iter().map(|name| value_of(name).map_or(String::new(), |(_, v)| v.to_string()));
        file.line(&cells.collect::<Vec<String>>().join(","))?;
        let is_new = |name: &&str| !columns.iter().any(|column| column == name);
        let new: Vec<&'static str> = values.iter().map(|(name, _)| *name).filter(is_new).collect();
        self.warn_of_new(label, new.into_iter());
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.files.flush()
    }

    fn kind(&self) -> Option<&'static str> {
        Some(self.files.kind())
    }

    fn mark(&mut self) -> Result<Mark> {
        self.files.mark()
    }

    fn truncate(&mut self, mark: &Mark) -> Result<()> {
        self.columns.clear();
        self.files.truncate(mark)
    }
}
