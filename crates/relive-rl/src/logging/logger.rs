//! The contract of a logger.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::run::Report;
use crate::{Result, RlError};

/// Time after which what was told must be in the files.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Writes down what a run tells.
pub trait Logger: Send {
    /// Writes one report.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, report: &Report) -> Result<()>;

    /// Returns when all reports are where others can read them.
    ///
    /// # Errors
    /// They cannot be written.
    fn flush(&mut self) -> Result<()>;
}

/// Several loggers as one, flushed about every second.
#[derive(Default)]
pub struct Loggers {
    loggers: Vec<Box<dyn Logger>>,
    flushed: Option<Instant>,
}

impl Loggers {
    /// None yet.
    #[must_use]
    pub fn new() -> Loggers {
        Loggers::default()
    }

    /// Adds one.
    pub fn add(&mut self, logger: impl Logger + 'static) {
        self.loggers.push(Box::new(logger));
    }
}

impl Logger for Loggers {
    fn write(&mut self, report: &Report) -> Result<()> {
        self.loggers.iter_mut().try_for_each(|logger| logger.write(report))?;
        let flushed = self.flushed.get_or_insert_with(Instant::now);
        if flushed.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        *flushed = Instant::now();
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.loggers.iter_mut().try_for_each(|logger| logger.flush())
    }
}

/// A file for each label, which is appended to if it is there.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    suffix: &'static str,
    files: BTreeMap<&'static str, (PathBuf, BufWriter<File>)>,
}

impl Files {
    pub(super) fn new(folder: &Path, suffix: &'static str) -> Result<Files> {
        std::fs::create_dir_all(folder).map_err(|error| RlError::file(folder, error))?;
        Ok(Files { folder: folder.to_owned(), suffix, files: BTreeMap::new() })
    }

    /// Appends a line, behind a header where the file is new.
    pub(super) fn line(
        &mut self,
        label: &'static str,
        header: impl FnOnce() -> String,
        line: &str,
    ) -> Result<()> {
        let (path, file) = match self.files.entry(label) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let path = self.folder.join(format!("{label}.{}", self.suffix));
                let mut file = open(&path)?;
                if file.get_ref().metadata().is_ok_and(|metadata| metadata.len() == 0) {
                    file.write_all(header().as_bytes()).map_err(|error| RlError::file(&path, error))?;
                }
                entry.insert((path, file))
            }
        };
        writeln!(file, "{line}").map_err(|error| RlError::file(path, error))
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let mut files = self.files.values_mut();
        files.try_for_each(|(path, file)| file.flush().map_err(|error| RlError::file(path, error)))
    }
}

fn open(path: &Path) -> Result<BufWriter<File>> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    Ok(BufWriter::new(file.map_err(|error| RlError::file(path, error))?))
}
