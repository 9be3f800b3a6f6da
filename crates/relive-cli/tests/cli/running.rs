//! Processes of a run that a test stops, kills and listens to.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use relive_client::ClientOptions;
use relive_client::blocking::Client;

use crate::support::signal;

/// Longer than anything takes unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A process whose messages can be waited for; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: ChildStdout,
    lines: Receiver<String>,
    /// What it has said so far, for who looks for the reason of a failure.
    said: Vec<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // It reads on when nobody listens any more, so that the process is never held up by a full pipe.
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        let stdout = child.stdout.take().unwrap();
        Running { child, stdout, lines, said: Vec::new() }
    }

    /// Waits until it says a line with this text.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {text:?}: {:#?}", self.said),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it has ended without saying {text:?}: {:#?}", self.said)
                }
            };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Kills it as `kill -9` does, and sees it end.
    pub(crate) fn kill(&mut self) {
        self.signal("KILL");
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Processor time that it has used, in the system's ticks of a hundredth of a second.
    pub(crate) fn ticks(&self) -> u64 {
        ticks(self.child.id())
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    /// What it has printed, when it has ended with success.
    pub(crate) fn succeeds(mut self) -> String {
        wait_until("a process ends", || !self.is_running());
        let status = self.child.wait().unwrap();
        self.said.extend(self.lines.iter());
        assert!(status.success(), "{status}: {:#?}", self.said);
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

/// Processor time that a process has used.
pub(crate) fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    // From the process's state on: the times are fields 14 and 15 of all.
    after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Waits for something to be so; how long that took.
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
    /// Those at an address, as soon as they are served.
    pub(crate) fn at(address: &str) -> Tables {
        let options = ClientOptions::default().timeout(Duration::from_secs(5));
        let tables = Tables(Client::connect_with(address, options).unwrap());
        wait_until("the tables of the run are served", || tables.0.server_info().is_ok());
        tables
    }

    /// Items that a table was given so far; 0 where it is not there yet, or the server does not answer.
    pub(crate) fn inserted(&self, table: &str) -> i64 {
        let info = self.0.server_info();
        info.ok().and_then(|info| Some(info.table(table)?.inserts)).unwrap_or(0)
    }

    /// Waits until a table was given so many items more; how long that took.
    pub(crate) fn wait_for(&self, more: i64, table: &str) -> Duration {
        let before = self.inserted(table);
        wait_until(&format!("`{table}` gets {more} items more"), || self.inserted(table) >= before + more)
    }
}
