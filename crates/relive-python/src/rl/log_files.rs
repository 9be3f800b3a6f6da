//! The files of loggers in Python, which go with the checkpoints of a run. The thread of the run asks, and the one
//! that waits for it answers: it alone calls loggers.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};

use pyo3::intern;
use pyo3::prelude::*;
use relive_rl::logging::{Logger, Mark};
use relive_rl::run::{Report, Summary};
use relive_rl::{Result, RlError, SavedPolicy};

/// What a run has come to.
pub(super) type Outcome = Result<(Summary, SavedPolicy)>;

/// What the thread of a run tells the one that waits for it.
pub(super) enum Event {
    /// It is over.
    Ended(Box<Outcome>),
    /// It asks something of the loggers.
    Asked(Asked),
}

/// Names of files, with their bytes.
type Sizes = BTreeMap<String, u64>;

/// What a run asks of the loggers' files.
pub(super) struct Asked {
    /// To cut them back to these sizes; otherwise how large they are.
    cut_back: Option<Sizes>,
    answer: SyncSender<Result<Sizes>>,
}

impl Asked {
    /// Does it; an error is told to the run, too, which ends then.
    pub(super) fn answer(self, reports: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = reports.py();
        let done = match self.cut_back {
            Some(sizes) => reports.call_method1(intern!(py, "cut_back"), (sizes,)).map(|_| Sizes::new()),
            None => reports.call_method0(intern!(py, "mark")).and_then(|sizes| sizes.extract()),
        };
        let (told, raised) = match done {
            Ok(sizes) => (Ok(sizes), Ok(())),
            Err(error) => (Err(RlError::Foreign(error.to_string())), Err(error)),
        };
        // A run that is over does not listen.
        let _ = self.answer.send(told);
        raised
    }

    /// The loggers have failed: the run is not saved with a log that lacks something.
    pub(super) fn refuse(self) {
        let _ = self.answer.send(Err(RlError::Stopped));
    }
}

/// The loggers of a run, of which only the files are known here: what they write goes another way.
pub(super) struct Files {
    tell: SyncSender<Event>,
}

impl Files {
    pub(super) fn new(tell: SyncSender<Event>) -> Files {
        Files { tell }
    }

    fn ask(&self, cut_back: Option<Sizes>) -> Result<Sizes> {
        let (answer, answered) = sync_channel(1);
        // Nobody waits for the run any more, as after a second Ctrl-C.
        self.tell.send(Event::Asked(Asked { cut_back, answer })).map_err(|_| RlError::Stopped)?;
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

    fn cut_back(&mut self, mark: &Mark) -> Result<()> {
        self.ask(Some(mark.files.clone())).map(drop)
    }
}
