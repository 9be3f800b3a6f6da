//! The files of Python loggers, which belong to the checkpoints of a run. The run's thread sends requests, and the
//! thread that is waiting for the run answers them, because only that thread calls loggers.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};

use pyo3::intern;
use pyo3::prelude::*;
use relive_rl::logging::{Logger, Mark};
use relive_rl::run::{Report, Summary};
use relive_rl::{Result, RlError, SavedPolicy};

/// The result of a run.
pub(super) type Outcome = Result<Ended>;

/// A run that has ended.
pub(super) struct Ended {
    pub(super) summary: Summary,
    pub(super) policy: SavedPolicy,
    /// The reason why its last checkpoint could not be written.
    pub(super) unsaved: Option<RlError>,
}

/// A message from a run's thread to the thread that is waiting for the run.
pub(super) enum Event {
    /// The run has ended.
    Ended(Box<Outcome>),
    /// A request about the loggers.
    FileRequest(FileRequest),
}

/// Names of files, with their sizes in bytes.
type Sizes = BTreeMap<String, u64>;

/// A request about the loggers' files.
pub(super) struct FileRequest {
    /// The sizes to which the files are truncated. If there are none, the request is for the current sizes.
    truncate: Option<Sizes>,
    answer: SyncSender<Result<Sizes>>,
}

impl FileRequest {
    /// Executes the request. An error is also sent to the run, which then ends.
    pub(super) fn answer(self, reports: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = reports.py();
        let done = match self.truncate {
            Some(sizes) => reports.call_method1(intern!(py, "truncate"), (sizes,)).map(|_| Sizes::new()),
            None => reports.call_method0(intern!(py, "mark")).and_then(|sizes| sizes.extract()),
        };
        let (sizes, raised) = match done {
            Ok(sizes) => (Ok(sizes), Ok(())),
            Err(error) => (Err(RlError::Foreign(error.to_string())), Err(error)),
        };
        // A run that has already ended does not receive the answer.
        let _ = self.answer.send(sizes);
        raised
    }

    /// Answers with an error because the loggers have failed, so that the run is not saved with an incomplete log.
    pub(super) fn refuse(self) {
        let _ = self.answer.send(Err(RlError::Stopped));
    }
}

/// The files of a run's loggers. Reports are passed to the loggers elsewhere.
pub(super) struct Files {
    events: SyncSender<Event>,
}

impl Files {
    pub(super) fn new(events: SyncSender<Event>) -> Files {
        Files { events }
    }

    fn ask(&self, truncate: Option<Sizes>) -> Result<Sizes> {
        let (answer, answered) = sync_channel(1);
        // The waiting thread may have ended, as after a second Ctrl-C.
        self.events
            .send(Event::FileRequest(FileRequest { truncate, answer }))
            .map_err(|_| RlError::Stopped)?;
        answered.recv().map_err(|_| RlError::Stopped)?
    }
}

impl Logger for Files {
    fn write(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn kind(&self) -> Option<&'static str> {
        Some("python")
    }

    fn mark(&mut self) -> Result<Mark> {
        Ok(Mark { kind: "python".to_owned(), files: self.ask(None)? })
    }

    fn truncate(&mut self, mark: &Mark) -> Result<()> {
        self.ask(Some(mark.files.clone())).map(drop)
    }
}
