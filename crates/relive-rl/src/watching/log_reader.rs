//! Reads the logs of a run's processes.

use std::collections::HashMap;
use std::time::Duration;

use relive_client::Tensor;
use relive_client::blocking::Client;
use serde::Serialize;

use super::log_writer::{LogPage, PREFIX};
use super::printable;
use crate::tables::item;
use crate::{Result, RlError};

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

const WHAT: &str = "the item of a table `logs/…`";

/// A log line of a process of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// `driver`, or `worker N`.
    pub origin: String,
    /// The host name of the process's machine.
    pub host: String,
    /// When it was logged, in milliseconds since 1970 by the clock of that machine.
    pub unix_ms: u64,
    /// How many lines of the same process were dropped directly before this one.
    pub dropped_before: u64,
    /// The text of the line.
    pub text: String,
}

/// Reads the logs of all processes of a run, each line once. A run may have any number of readers. Each receives all
/// lines, and none slows down the run. A process keeps its newest 500 lines, at most 64 KiB.
#[derive(Debug)]
pub struct LogReader {
    client: Client,
    seen: HashMap<String, ReadPosition>,
}

/// The read position in a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReadPosition {
    inserts: i64,
    began: u64,
    next: u64,
}

impl LogReader {
    /// Reads the logs of the run on a server, starting with the oldest lines that were kept.
    #[must_use]
    pub fn new(client: &Client) -> LogReader {
        LogReader { client: client.clone(), seen: HashMap::new() }
    }

    /// Returns the lines that all processes have logged since the last call, ordered by time. Returns `None` if the
    /// server has no run.
    ///
    /// # Errors
    /// The server is lost, or its tables do not contain log lines.
    pub fn read(&mut self) -> Result<Option<Vec<LogLine>>> {
        let info = self.client.with_timeout(ANSWER).server_info()?;
        let tables: Vec<_> =
            info.tables.iter().filter(|table| table.config.name.starts_with(PREFIX)).collect();
        if tables.is_empty() {
            return Ok(None);
        }
        let mut lines = Vec::new();
        for table in tables {
            let name = &table.config.name;
            let is_same = self.seen.get(name).is_some_and(|seen| seen.inserts == table.inserts);
            if table.current_size > 0 && !is_same {
                self.read_table(name, table.inserts, &mut lines)?;
            }
        }
        lines.sort_by_key(|line| line.unix_ms);
        Ok(Some(lines))
    }

    fn read_table(&mut self, table: &str, inserts: i64, lines: &mut Vec<LogLine>) -> Result<()> {
        // Without an item, the table was reset a moment ago.
        let Some(columns) = item::newest(&self.client, table, ANSWER)? else { return Ok(()) };
        let bytes = columns.first().map(Tensor::to_vec::<u8>).transpose();
        let bytes = bytes.map_err(|error| RlError::state(WHAT, error))?.unwrap_or_default();
        let written: LogPage = serde_json::from_slice(&bytes).map_err(|error| RlError::state(WHAT, error))?;
        let seen = self.seen.entry(table.to_owned()).or_default();
        seen.inserts = inserts;
        seen.take(written, lines);
        Ok(())
    }
}

impl ReadPosition {
    /// Appends the new lines of a page to `lines`.
    fn take(&mut self, written: LogPage, lines: &mut Vec<LogLine>) {
        let LogPage { origin, host, page } = written;
        let [origin, host] = [origin, host].map(|text| printable(&text).into_owned());
        if page.began != self.began {
            (self.began, self.next) = (page.began, 0);
        }
        let mut dropped_before = page.first.saturating_sub(self.next);
        for (number, line) in (page.first..).zip(page.lines) {
            if number < self.next {
                continue;
            }
            self.next = number + 1;
            lines.push(LogLine {
                origin: origin.clone(),
                host: host.clone(),
                unix_ms: line.unix_ms,
                dropped_before: std::mem::take(&mut dropped_before),
                text: printable(&line.text).into_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::{Engine, EngineBuilder};

    use super::super::{LogLines, LogWriter, Origin, log_tables};
    use super::*;

    fn client() -> Client {
        let engine = log_tables(2).fold(Engine::builder(), EngineBuilder::table);
        Client::in_process(engine.build().unwrap()).unwrap()
    }

    fn lines_of(lines: &[LogLine]) -> Vec<(&str, &str, u64)> {
        lines.iter().map(|line| (&line.origin[..], &line.text[..], line.dropped_before)).collect()
    }

    #[test]
    fn lines_of_all_processes_are_read_once_by_each_reader() {
        let client = client();
        let [driver, worker] = [(); 2].map(|()| LogLines::new());
        driver.push("the run begins");
        drop(LogWriter::start(&client, Origin::Driver, &driver).unwrap());
        worker.push("a worker begins");
        drop(LogWriter::start(&client, Origin::Worker(1), &worker).unwrap());
        let mut reader = LogReader::new(&client);
        let first = reader.read().unwrap().unwrap();
        let mut both = lines_of(&first);
        both.sort_unstable();
        assert_eq!(both, [("driver", "the run begins", 0), ("worker 1", "a worker begins", 0)]);
        assert_eq!(reader.read().unwrap(), Some(Vec::new()), "each once");
        assert_eq!(LogReader::new(&client).read().unwrap().unwrap().len(), 2, "and again by another");
        for number in 0..600 {
            worker.push(&number.to_string());
        }
        drop(LogWriter::start(&client, Origin::Worker(1), &worker).unwrap());
        let more = reader.read().unwrap().unwrap();
        assert_eq!((more.len(), &lines_of(&more)[0]), (500, &("worker 1", "100", 100)));
        // A new process with the same number restarts the count.
        let anew = LogLines::new();
        anew.push("started anew");
        drop(LogWriter::start(&client, Origin::Worker(1), &anew).unwrap());
        assert_eq!(lines_of(&reader.read().unwrap().unwrap()), [("worker 1", "started anew", 0)]);
    }

    #[test]
    fn foreign_log_lines_are_made_printable() {
        let client = client();
        let page = r#"{"origin":"worker \u001b","host":"h\u0007","page":{"began":1,"first":0,"lines":[{"unix_ms":0,"text":"\u001b[2J"}]}}"#;
        let step = relive_client::Nest::dict([("lines", item::leaf(page.as_bytes()).unwrap())]);
        client.insert(&step, &[("logs/1", 1.0)]).unwrap();
        let lines = LogReader::new(&client).read().unwrap().unwrap();
        let LogLine { origin, host, text, .. } = &lines[0];
        assert_eq!([origin, host, text], ["worker \\u{1b}", "h\\u{7}", "\\u{1b}[2J"]);
    }

    #[test]
    fn a_server_without_a_run_has_no_logs() {
        let engine = Engine::builder().table(relive_table::TableConfig::new("scratch")).build().unwrap();
        assert_eq!(LogReader::new(&Client::in_process(engine).unwrap()).read().unwrap(), None);
    }

    #[test]
    fn a_process_without_a_log_table_is_not_blocked() {
        let (client, lines) = (client(), LogLines::new());
        lines.push("who am I");
        drop(LogWriter::start(&client, Origin::Worker(7), &lines).unwrap());
        assert_eq!(LogReader::new(&client).read().unwrap(), Some(Vec::new()));
    }

    #[test]
    fn the_end_of_a_process_does_not_wait_for_a_page_in_flight() {
        let engine = log_tables(2).fold(Engine::builder(), EngineBuilder::table).build().unwrap();
        let client = Client::in_process(engine.clone()).unwrap();
        client.pause_table("logs/1", true, false).unwrap();
        let lines = LogLines::new();
        lines.push("the server does not respond");
        let writer = LogWriter::start(&client, Origin::Worker(1), &lines).unwrap();
        while engine.table("logs/1").unwrap().status().waiting_inserts == 0 {
            std::thread::yield_now();
        }
        let begun = std::time::Instant::now();
        drop(writer);
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(1_700), "a page in flight may take 2 s, but it took {took:?}");
    }
}
