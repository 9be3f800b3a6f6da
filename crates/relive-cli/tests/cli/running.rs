//! Processes of a run that a test stops, kills and reads messages from.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use relive_client::ClientOptions;
use relive_client::blocking::Client;

use crate::support::signal;

/// This is longer than any operation takes, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A process with messages that a test can wait for; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: ChildStdout,
    lines: Receiver<String>,
    /// The messages so far, to show when a test fails.
    lines_read: Vec<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // Keeps reading when the receiver is gone, so that a full pipe never blocks the process.
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let stdout = child.stdout.take().unwrap();
        Running { child, stdout, lines, lines_read: Vec::new() }
    }

    /// Waits until the process logs a line with this text.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {text:?}: {:#?}", self.lines_read),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it has ended without saying {text:?}: {:#?}", self.lines_read)
                }
            };
            self.lines_read.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Kills the process as `kill -9` does, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.signal("KILL");
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the processor time that the process has used, in the system's ticks of a hundredth of a second.
    pub(crate) fn ticks(&self) -> u64 {
        ticks(self.child.id())
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    /// Waits until the process ends, which must succeed; returns its output.
    pub(crate) fn succeeds(mut self) -> String {
        wait_until("a process ends", || !self.is_running());
        let status = self.child.wait().unwrap();
        self.lines_read.extend(self.lines.iter());
        assert!(status.success(), "{status}: {:#?}", self.lines_read);
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processor time that a process has used.
pub(crate) fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    // The fields start with the state here; the times are fields 14 and 15 of the whole line.
    after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Waits until a condition holds; returns how long that took.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "it is not so that {what}");
        thread::yield_now();
    }
    since.elapsed()
}

/// The tables of a run, from outside.
pub(crate) struct Tables(pub(crate) Client);

impl Tables {
    /// Returns the tables at an address, once they are served.
    pub(crate) fn at(address: &str) -> Tables {
        let options = ClientOptions::default().timeout(Duration::from_secs(5));
        let tables = Tables(Client::connect_with(address, options).unwrap());
        wait_until("the tables of the run are served", || tables.0.server_info().is_ok());
        tables
    }

    /// Returns the number of items that were inserted into a table so far; 0 if the table does not exist yet, or the
    /// server does not answer.
    pub(crate) fn inserted(&self, table: &str) -> i64 {
        let info = self.0.server_info();
        info.ok().and_then(|info| Some(info.table(table)?.inserts)).unwrap_or(0)
    }

    /// Waits until `more` further items were inserted into a table; returns how long that took.
    pub(crate) fn wait_for(&self, more: i64, table: &str) -> Duration {
        let before = self.inserted(table);
        wait_until(&format!("`{table}` gets {more} items more"), || self.inserted(table) >= before + more)
    }
}
