//! Answers connections to a meeting that is complete, without delay.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::RingOptions;
use super::greeting::{Greeting, MemberAddress, refused};
use super::limits::{GREETING_TIMEOUT, MAX_LATECOMERS};
use super::message::{Inbox, Reader};

/// The listener of a complete meeting. It never blocks.
#[derive(Debug)]
pub(super) struct Latecomers {
    listener: TcpListener,
    options: RingOptions,
    /// Connections that have not sent their greeting.
    connected: Vec<Latecomer>,
}

#[derive(Debug)]
struct Latecomer {
    socket: TcpStream,
    inbox: Inbox,
    until: Instant,
}

impl Latecomers {
    /// Takes over the meeting's nonblocking listener.
    pub(super) fn of(listener: TcpListener, options: &RingOptions) -> Latecomers {
        Latecomers { listener, options: options.clone(), connected: Vec::new() }
    }

    /// The file descriptors to poll for input.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Connections without room wait, and are not polled meanwhile.
        let has_room = self.connected.len() < MAX_LATECOMERS;
        let listener = has_room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let sockets = self.connected.iter().map(|latecomer| PollFd::new(&latecomer.socket, PollFlags::IN));
        listener.into_iter().chain(sockets)
    }

    /// Accepts new connections, and answers those that have sent their greeting.
    pub(super) fn answer(&mut self, members: &[MemberAddress]) {
        while self.connected.len() < MAX_LATECOMERS
            && let Ok((socket, _)) = self.listener.accept()
        {
            if socket.set_nonblocking(true).is_ok() {
                let until = Instant::now() + GREETING_TIMEOUT;
                self.connected.push(Latecomer { socket, inbox: Inbox::default(), until });
            }
        }
        let options = &self.options;
        self.connected.retain_mut(|latecomer| latecomer.is_to_be_heard(options, members));
    }
}

impl Latecomer {
    /// Reads from the connection. Once its greeting is complete, it is answered and dropped. Returns whether
    /// to keep it.
    fn is_to_be_heard(&mut self, options: &RingOptions, members: &[MemberAddress]) -> bool {
        let is_open = self.inbox.fill(&mut self.socket).unwrap_or(false);
        match self.inbox.next() {
            Ok(Some(message)) => {
                // It may have disconnected.
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
