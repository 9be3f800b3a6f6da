//! The process that owns a word of shared memory, and whether it is alive.

use std::fs;
use std::io;

use crate::error::{Error, Result};

/// Process ids have at most 22 bits on Linux.
const PID_BITS: u32 = 22;

/// A process, which its start time distinguishes from later processes with the same id. It is encoded in one word, so
/// that it is written atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    /// Returns this process. Its identity is read again each time, because a fork creates another process.
    pub(crate) fn current() -> Result<Self> {
        let pid = std::process::id();
        match Self::of(pid) {
            Ok(Some(identity)) => Ok(identity),
            Ok(None) => {
                Err(Error::unavailable(format!("/proc does not show this process, {pid}; mount /proc")))
            }
            Err(error) => Err(Error::system(format_args!("read /proc/{pid}/stat"), error)),
        }
    }

    /// Returns the process that currently has this id, if one is alive.
    fn of(pid: u32) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => Ok(started(&text).map(|start| Self(start << PID_BITS | u64::from(pid)))),
            // `ESRCH`: the process ended between opening and reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the identity that a word encodes.
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the identity as a word; never 0.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Returns the process id, for display.
    pub(crate) fn pid(self) -> u64 {
        self.0 & ((1 << PID_BITS) - 1)
    }

    /// Returns whether the process is alive. If that cannot be determined, it counts as alive, so that nothing is taken
    /// from it.
    pub(crate) fn is_alive(self) -> bool {
        let pid = u32::try_from(self.pid()).expect("has 22 bits");
        Self::of(pid).map_or(true, |found| found == Some(self))
    }
}

const ESRCH: i32 = 3;

/// Returns the start time from the text of `/proc/<pid>/stat`, or `None` for a zombie. The second field, the program's
/// name, may contain spaces and brackets, so fields are counted from its end.
fn started(text: &[u8]) -> Option<u64> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // The state is field 3, the start time field 22.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn live_and_dead_processes_are_distinguished() {
        let current = Identity::current().unwrap();
        assert!(current.is_alive());
        assert!(!Identity(current.word() + (1 << PID_BITS)).is_alive(), "same id, started later");
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        assert!(identity.is_alive());
        child.kill().unwrap();
        // The process stays a zombie until it is waited for; a zombie counts as dead once the signal has arrived.
        while identity.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    fn process_names_with_parentheses_are_parsed() {
        let text = b"7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(started(text), Some(4242));
        assert_eq!(started(b"7 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"), None);
        assert_eq!(started(b"7 (a"), None);
    }
}
