//! Answers connections to a meeting that is complete, without delay.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::RingOptions;
use super::greeting::{Greeting, MemberAddress, refused};
use super::limits::{GREETING_TIMEOUT, MAX_LATE_CONNECTIONS};
use super::message::{Inbox, Reader};

/// The listener of a complete meeting. It never blocks.
#[derive(Debug)]
pub(super) struct LateConnections {
    listener: TcpListener,
    options: RingOptions,
    /// Connections that have not sent their greeting.
    connected: Vec<LateConnection>,
}

#[derive(Debug)]
struct LateConnection {
    socket: TcpStream,
    inbox: Inbox,
    until: Instant,
}

impl LateConnections {
    /// Takes over the meeting's nonblocking listener.
    pub(super) fn of(listener: TcpListener, options: &RingOptions) -> LateConnections {
        LateConnections { listener, options: options.clone(), connected: Vec::new() }
    }

    /// Returns the file descriptors to poll for input.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // If there is no room, new connections wait, and the listener is not polled.
        let has_room = self.connected.len() < MAX_LATE_CONNECTIONS;
        let listener = has_room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let sockets = self.connected.iter().map(|connection| PollFd::new(&connection.socket, PollFlags::IN));
        listener.into_iter().chain(sockets)
    }

    /// Accepts new connections, and answers those that have sent their greeting.
    pub(super) fn answer(&mut self, members: &[MemberAddress]) {
        while self.connected.len() < MAX_LATE_CONNECTIONS
            && let Ok((socket, _)) = self.listener.accept()
        {
            if socket.set_nonblocking(true).is_ok() {
                let until = Instant::now() + GREETING_TIMEOUT;
                self.connected.push(LateConnection { socket, inbox: Inbox::default(), until });
            }
        }
        let options = &self.options;
        self.connected.retain_mut(|connection| connection.poll_greeting(options, members));
    }
}

impl LateConnection {
    /// Reads from the connection. Once its greeting is complete, the connection is answered and dropped. Returns
    /// whether to keep the connection.
    fn poll_greeting(&mut self, options: &RingOptions, members: &[MemberAddress]) -> bool {
        let is_open = self.inbox.fill(&mut self.socket).unwrap_or(false);
        match self.inbox.next() {
            Ok(Some(message)) => {
                // The member may have disconnected.
                let _ = refused(&refusal(message, options, members)).send(&mut self.socket);
                false
            }
            Ok(None) => is_open && Instant::now() < self.until,
            Err(_) => false,
        }
    }
}

fn refusal(message: Reader, options: &RingOptions, members: &[MemberAddress]) -> String {
    let Ok(greeting) = Greeting::read(message) else { return "it is not a member of a ring".to_owned() };
    let taken = || {
        let rank = greeting.rank;
        let by = members.get(rank as usize).map_or_else(String::new, |place| format!(" by {place}"));
        format!("rank {rank} is taken{by}: all {} members of the ring are present", options.ranks)
    };
    greeting.refusal(options).unwrap_or_else(taken)
}
