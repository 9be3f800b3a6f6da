//! Writes the log of a run's process to a table of the run, for [`LogReader`](super::LogReader).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use relive_client::Nest;
use relive_client::blocking::Client;
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use super::LogLines;
use super::log_lines::Page;
use crate::tables::item;
use crate::{Result, threads};

/// The prefix of these tables' names.
pub(super) const PREFIX: &str = "logs/";

/// The time between two pages: readers see a line at most a quarter of a second late.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// How long the server may take to confirm a page. A failed page is written again, with newer lines.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The timeout for the last page, which must not delay the end of the process.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the end of a writer waits for its thread, which may still be writing an earlier page to a server that does
/// not respond.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum duration of an idle wait; the exact value does not matter.
const LONG: Duration = Duration::from_secs(60);

/// The process that logged the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Driver,
    Worker(u32),
}

impl Origin {
    fn table(self) -> String {
        match self {
            Origin::Driver => format!("{PREFIX}driver"),
            Origin::Worker(number) => format!("{PREFIX}{number}"),
        }
    }

    fn config(self) -> TableConfig {
        TableConfig::new(self.table()).max_size(1)
    }

    fn name(self) -> String {
        match self {
            Origin::Driver => "driver".to_owned(),
            Origin::Worker(number) => format!("worker {number}"),
        }
    }
}

/// A page of lines with its origin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LogPage {
    pub(super) origin: String,
    pub(super) host: String,
    pub(super) page: Page,
}

/// Returns the name of this machine, as `hostname` prints it.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the log tables of the driver and of the given number of workers.
pub(crate) fn tables(workers: usize) -> impl Iterator<Item = TableConfig> {
    let workers = 0..u32::try_from(workers).unwrap_or(u32::MAX);
    std::iter::once(Origin::Driver.config()).chain(tables_of(workers))
}

/// Returns the tables for the lines of these workers.
pub(crate) fn tables_of(workers: Range<u32>) -> impl Iterator<Item = TableConfig> {
    workers.map(|number| Origin::Worker(number).config())
}

/// Writes lines on its own thread until dropped. The drop waits for the last page, but only briefly.
#[derive(Debug)]
pub(crate) struct LogWriter {
    lines: LogLines,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread ends.
    thread_end: Receiver<()>,
}

impl LogWriter {
    /// Starts to write the lines of this process to the run's tables.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(client: &Client, origin: Origin, lines: &LogLines) -> Result<LogWriter> {
        // All kept lines are written again, since the tables may be new.
        lines.put_back();
        let (client, own, has_ended) = (client.clone(), lines.clone(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&has_ended);
        let (dropped_at_end, thread_end) = channel();
        let work = move || {
            let _dropped_at_end = dropped_at_end;
            let host = host_name();
            while !ends.load(Ordering::Relaxed) {
                let page = own.next_within(LONG, &ends);
                let timeout = if ends.load(Ordering::Relaxed) { LAST_TIMEOUT } else { TIMEOUT };
                if !write(&client, (origin, &host), page, timeout) {
                    own.put_back();
                }
                own.rest(WRITE_EVERY, &ends);
            }
            let page = own.next_within(Duration::ZERO, &ends);
            write(&client, (origin, &host), page, LAST_TIMEOUT);
        };
        let thread = threads::spawn("relive-rl-logs", work)?;
        Ok(LogWriter { lines: lines.clone(), has_ended, thread: Some(thread), thread_end })
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.lines.end(&self.has_ended);
        let has_stopped = self.thread_end.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Disconnected);
        if let Some(thread) = self.thread.take().filter(|_| has_stopped) {
            // The panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// Writes a page, if there is one. Returns whether it succeeded. Must not log, as that would create new
/// lines.
fn write(client: &Client, (origin, host): (Origin, &str), page: Option<Page>, timeout: Duration) -> bool {
    let Some(page) = page.filter(|page| !page.lines.is_empty()) else { return true };
    let written = LogPage { origin: origin.name(), host: host.to_owned(), page };
    let bytes = serde_json::to_vec(&written).unwrap_or_default();
    let put = || -> Result<()> {
        let step = Nest::dict([("lines", item::leaf(&bytes)?)]);
        Ok(client.with_timeout(timeout).insert(&step, &[(&origin.table(), 1.0)])?)
    };
    // The server may be unavailable, or have no table for a worker with this number.
    put().is_ok()
}
