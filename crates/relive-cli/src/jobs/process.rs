//! Identifies processes on this machine, even if process ids are reused.

use std::time::{Duration, Instant};

use relive_rl::watching::host_name;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, Result};

/// The interval at which to check whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process. Its id may be reused later; the start time distinguishes it from later processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// The start time, in the system's ticks since boot.
    started: Option<u64>,
    /// The identifier of the boot from which `started` is counted.
    boot: Option<String>,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Process {
        let pid = std::process::id();
        let started = stat(pid).map(|(_, started)| started);
        Process { host: host_name(), pid, started, boot: boot() }
    }

    /// Returns whether the process runs on this machine.
    pub(crate) fn is_on_this_host(&self) -> bool {
        self.host == host_name()
    }

    /// Returns whether the process has verifiably ended; this is unknown for processes on other machines.
    pub(crate) fn has_ended(&self) -> bool {
        if !self.is_on_this_host() || self.started.is_none() {
            return false;
        }
        let is_ended = |state: char| matches!(state, 'Z' | 'X');
        let is_it = |(state, started)| Some(started) == self.started && !is_ended(state);
        self.boot != boot() || !stat(self.pid).is_some_and(is_it)
    }

    /// Waits up to `patience` until the process has ended, and returns whether it has.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// Kills it.
    pub(crate) fn kill(&self) -> Result {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(()) };
        kill_process(pid, Signal::KILL).map_err(|error| {
            Failure::text(Kind::Runtime, format!("cannot kill process {}: {error}", self.pid))
        })
    }
}

/// Returns the state of a process and the time of its start, or `None` if the system does not report them.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The preceding name may contain any characters.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_distinguished_from_another_with_the_same_pid() {
        let own = Process::own();
        assert!(own.is_on_this_host() && !own.has_ended());
        let other = Process { started: own.started.map(|started| started + 1), ..own.clone() };
        assert!(other.has_ended() && other.ends_within(Duration::ZERO));
        let before = Process { boot: Some("another".to_owned()), ..own.clone() };
        assert!(before.has_ended());
        let far = Process { host: "elsewhere".to_owned(), pid: 1, ..own.clone() };
        assert!(!far.has_ended() && !far.is_on_this_host());
        assert!(!own.ends_within(Duration::ZERO));
    }
}
