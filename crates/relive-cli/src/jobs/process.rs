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
    /// The namespace of `pid`. Containers with the same host name can have different ones. Unknown in old records.
    #[serde(default)]
    pid_namespace: Option<String>,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Process {
        let pid = std::process::id();
        let started = stat(pid).map(|(_, started)| started);
        Process { host: host_name(), pid, started, boot: boot(), pid_namespace: pid_namespace() }
    }

    /// Returns whether the process is visible under its id, that is, whether it runs on this machine and not in
    /// another container.
    pub(crate) fn is_visible(&self) -> bool {
        self.host == host_name() && !self.is_in_another_container()
    }

    /// Returns the location of the process, for people.
    pub(crate) fn place(&self) -> String {
        match self.is_in_another_container() {
            true => format!("{}, in another container", self.host),
            false => self.host.clone(),
        }
    }

    /// Returns whether the process has verifiably ended; this is unknown for processes on other machines and in other
    /// containers.
    pub(crate) fn has_ended(&self) -> bool {
        if self.host != host_name() || self.started.is_none() {
            return false;
        }
        if self.boot != boot() {
            return true;
        }
        let is_ended = |state: char| matches!(state, 'Z' | 'X');
        let is_it = |(state, started)| Some(started) == self.started && !is_ended(state);
        !self.is_in_another_container() && !stat(self.pid).is_some_and(is_it)
    }

    fn is_in_another_container(&self) -> bool {
        self.pid_namespace.as_ref().zip(pid_namespace().as_ref()).is_some_and(|(its, own)| its != own)
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

fn pid_namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_distinguished_from_another_with_the_same_pid() {
        let own = Process::own();
        assert!(own.is_visible() && !own.has_ended());
        let other = Process { started: own.started.map(|started| started + 1), ..own.clone() };
        assert!(other.has_ended() && other.ends_within(Duration::ZERO));
        let before = Process { boot: Some("another".to_owned()), ..own.clone() };
        assert!(before.has_ended());
        let far = Process { host: "elsewhere".to_owned(), pid: 1, ..own.clone() };
        assert!(!far.has_ended() && !far.is_visible());
        assert!(!own.ends_within(Duration::ZERO));
    }

    #[test]
    fn a_process_in_another_container_is_not_taken_for_one_with_its_pid() {
        let own = Process::own();
        let started = own.started.map(|started| started + 1);
        let elsewhere = Process { pid_namespace: Some("pid:[1]".to_owned()), started, ..own.clone() };
        assert!(!elsewhere.has_ended() && !elsewhere.is_visible());
        assert_eq!(elsewhere.place(), format!("{}, in another container", own.host));
        let before = Process { boot: Some("another".to_owned()), ..elsewhere };
        assert!(before.has_ended(), "the machine has restarted since");
    }

    #[test]
    fn a_record_without_a_namespace_is_read() {
        let own = Process::own();
        let mut old = serde_json::to_value(&own).unwrap();
        old.as_object_mut().unwrap().remove("pid_namespace").unwrap();
        let old: Process = serde_json::from_value(old).unwrap();
        assert!(old.is_visible() && !old.has_ended());
    }
}
