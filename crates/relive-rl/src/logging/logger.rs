//! The contract of a logger.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Mark;
use super::report::{LABELS, Report};
use crate::{Result, RlError};

/// The time within which reports must be written to the files.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Writes the reports from a run.
pub trait Logger: Send {
    /// Writes one report.
    ///
    /// # Errors
    /// The report cannot be written.
    fn write(&mut self, report: &Report) -> Result<()>;

    /// Flushes all reports, so that other processes can read them.
    ///
    /// # Errors
    /// The reports cannot be written.
    fn flush(&mut self) -> Result<()>;

    /// Returns the kind of the logger's files, such as `csv`. The default is `None`, which means that the files are
    /// never truncated.
    fn kind(&self) -> Option<&'static str> {
        None
    }

    /// Syncs the logger's files to disk and returns their lengths. The mark is saved with the run's checkpoint.
    ///
    /// # Errors
    /// The files cannot be written.
    fn mark(&mut self) -> Result<Mark> {
        self.flush().map(|()| Mark::default())
    }

    /// Truncates the logger's files to a mark before the first write, because the run resumes from there.
    ///
    /// # Errors
    /// The files cannot be written.
    fn truncate(&mut self, _mark: &Mark) -> Result<()> {
        Ok(())
    }
}

/// Several loggers as one, flushed about once a second. Clones are cheap and share the loggers.
#[derive(Clone, Default)]
pub struct Loggers(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    loggers: Vec<Box<dyn Logger>>,
    flushed: Option<Instant>,
}

impl Loggers {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Loggers {
        Loggers::default()
    }

    /// Adds a logger.
    pub fn add(&mut self, logger: impl Logger + 'static) {
        self.0.lock().loggers.push(Box::new(logger));
    }

    /// Removes the files of all loggers. They may belong to a run that was killed before its first checkpoint.
    ///
    /// # Errors
    /// The files cannot be removed.
    pub fn remove_files(&self) -> Result<()> {
        self.truncate(Vec::new())
    }

    /// Flushes all loggers.
    pub(crate) fn flush_files(&self) -> Result<()> {
        self.0.lock().loggers.iter_mut().try_for_each(|logger| logger.flush())
    }

    /// Returns the marks of the loggers with files.
    pub(crate) fn marks(&self) -> Result<Vec<Mark>> {
        let mut all = self.0.lock();
        let with_files = all.loggers.iter_mut().filter(|logger| logger.kind().is_some());
        with_files.map(|logger| logger.mark()).collect()
    }

    /// Truncates the files of each logger to the logger's mark, which is the first remaining mark of its kind. The
    /// files of a logger without a mark are emptied.
    pub(crate) fn truncate(&self, mut marks: Vec<Mark>) -> Result<()> {
        for logger in &mut self.0.lock().loggers {
            let Some(kind) = logger.kind() else { continue };
            let found = marks.iter().position(|mark| mark.kind == kind);
            logger.truncate(&found.map(|index| marks.remove(index)).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Loggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loggers").field("loggers", &self.0.lock().loggers.len()).finish()
    }
}

impl Logger for Loggers {
    fn write(&mut self, report: &Report) -> Result<()> {
        let mut all = self.0.lock();
        all.loggers.iter_mut().try_for_each(|logger| logger.write(report))?;
        let flushed = all.flushed.get_or_insert_with(Instant::now);
        if flushed.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        *flushed = Instant::now();
        all.loggers.iter_mut().try_for_each(|logger| logger.flush())
    }

    fn flush(&mut self) -> Result<()> {
        self.flush_files()
    }
}

/// One file per label; existing files are appended to.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    suffix: &'static str,
    files: BTreeMap<&'static str, LabelFile>,
}

/// The file of a label.
#[derive(Debug)]
pub(super) struct LabelFile {
    path: PathBuf,
    file: BufWriter<File>,
    is_new: bool,
}

impl LabelFile {
    /// Opens a file. Its content is kept.
    fn open(path: PathBuf) -> Result<LabelFile> {
        let opened = OpenOptions::new().create(true).append(true).read(true).open(&path);
        let mut file = opened.map_err(|error| RlError::file(&path, error))?;
        let is_new = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if !is_new && !ends_with_newline(&mut file).map_err(|error| RlError::file(&path, error))? {
            tracing::warn!(
                "the last line of {} is incomplete, for example because the disk was full: new lines follow it",
                path.display()
            );
            file.write_all(b"\n").map_err(|error| RlError::file(&path, error))?;
        }
        Ok(LabelFile { path, file: BufWriter::new(file), is_new })
    }

    /// Returns the columns of the first line. If the file has no header with any of these columns yet, they are
    /// written.
    pub(super) fn columns(&mut self, columns: &[&str]) -> Result<Vec<String>> {
        let is_new = std::mem::take(&mut self.is_new);
        if !is_new {
            let first = self.first_line()?;
            let found: Vec<String> = first.trim_end().split(',').map(str::to_owned).collect();
            if found.iter().any(|column| columns.contains(&column.as_str())) {
                return Ok(found);
            }
            tracing::warn!(
                "{} does not begin with the names of its columns, for example because it was truncated during a \
                 run: they precede the new lines",
                self.path.display()
            );
        }
        self.line(&columns.join(","))?;
        Ok(columns.iter().map(|column| (*column).to_owned()).collect())
    }

    fn first_line(&mut self) -> Result<String> {
        self.flush()?;
        let opened = File::open(&self.path).map_err(|error| RlError::file(&self.path, error))?;
        let mut first = String::new();
        BufReader::new(opened).read_line(&mut first).map_err(|error| RlError::file(&self.path, error))?;
        Ok(first)
    }

    /// Appends a line.
    pub(super) fn line(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}").map_err(|error| RlError::file(&self.path, error))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| RlError::file(&self.path, error))
    }
}

fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl Files {
    pub(super) fn new(folder: &Path, suffix: &'static str) -> Result<Files> {
        std::fs::create_dir_all(folder).map_err(|error| RlError::file(folder, error))?;
        Ok(Files { folder: folder.to_owned(), suffix, files: BTreeMap::new() })
    }

    /// Returns the file of a label.
    pub(super) fn of(&mut self, label: &'static str) -> Result<&mut LabelFile> {
        Ok(match self.files.entry(label) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(LabelFile::open(self.folder.join(format!("{label}.{}", self.suffix)))?)
            }
        })
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.files.values_mut().try_for_each(LabelFile::flush)
    }

    pub(super) fn kind(&self) -> &'static str {
        self.suffix
    }

    pub(super) fn mark(&mut self) -> Result<Mark> {
        self.flush()?;
        Mark::of(self.suffix, &self.folder, &|name| self.is_own(name))
    }

    pub(super) fn truncate(&mut self, mark: &Mark) -> Result<()> {
        self.files.clear();
        mark.truncate(&self.folder, &|name| self.is_own(name))
    }

    /// Returns whether a file name is one of the logger's, because the folder may contain other files.
    fn is_own(&self, name: &str) -> bool {
        let label = name.strip_suffix(self.suffix).and_then(|name| name.strip_suffix('.'));
        label.is_some_and(|label| LABELS.contains(&label))
    }
}
