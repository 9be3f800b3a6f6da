//! The public state of the servers.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// The number of changes that are kept.
const MAX_CHANGES: usize = 256;

/// Whether a server participates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerStanding {
    /// Not contacted yet.
    Unknown,
    /// The server answers and participates.
    Up,
    /// The server does not answer, and is left out until it answers again.
    Away,
}

impl ServerStanding {
    /// Returns the standing in one word.
    pub fn name(self) -> &'static str {
        match self {
            ServerStanding::Unknown => "unknown",
            ServerStanding::Up => "up",
            ServerStanding::Away => "away",
        }
    }
}

/// The state of one of many servers, as observed by its client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerState {
    /// Its address.
    pub address: String,
    /// Whether the server participates.
    pub standing: ServerStanding,
    /// How long the server has had this standing.
    pub since: Duration,
    /// The reason why the server is left out, or an empty text if it is not left out.
    pub reason: String,
    /// The number of writers' streams to this server.
    pub writers: usize,
    /// The number of times that the server has been left out.
    pub times_left: u64,
    /// The number of priority updates and deletions that were lost because this server, which had the keys, was
    /// unreachable.
    pub lost_updates: u64,
}

/// A change that concerns a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerEvent {
    /// The server answered, for the first time or again, and participates.
    Joined,
    /// The server was left out.
    Left,
    /// The server is no longer among the addresses of its name.
    Removed,
}

impl ServerEvent {
    /// Returns the event in one word.
    pub fn name(self) -> &'static str {
        match self {
            ServerEvent::Joined => "joined",
            ServerEvent::Left => "left",
            ServerEvent::Removed => "removed",
        }
    }
}

/// An event that concerns a server, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerChange {
    /// The number of this change among all changes of this client, from 0.
    pub number: u64,
    /// The time of the change, according to the clock of the client's machine.
    pub at: SystemTime,
    /// The address of the server.
    pub address: String,
    /// The event.
    pub event: ServerEvent,
    /// Why.
    pub reason: String,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    next: u64,
    last: VecDeque<ServerChange>,
}

impl ChangeLog {
    pub(crate) fn add(&mut self, address: &str, event: ServerEvent, reason: &str) {
        if self.last.len() == MAX_CHANGES {
            self.last.pop_front();
        }
        let (address, reason) = (address.to_owned(), reason.to_owned());
        self.last.push_back(ServerChange {
            number: self.next,
            at: SystemTime::now(),
            address,
            event,
            reason,
        });
        self.next += 1;
    }

    pub(crate) fn all(&self) -> Vec<ServerChange> {
        self.last.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_log_keeps_the_last_changes_with_their_numbers() {
        let mut log = ChangeLog::default();
        for number in 0..MAX_CHANGES + 5 {
            log.add(&format!("server {number}"), ServerEvent::Left, "gone");
        }
        let all = log.all();
        assert_eq!(all.len(), MAX_CHANGES);
        assert_eq!((all[0].number, &*all[0].address), (5, "server 5"));
    }
}
