//! Answers connections to a meeting that is complete, without delay.

use std::net::TcpListener;

use rustix::event::PollFd;

use super::RingOptions;
use super::arrivals::Arrivals;
use super::greeting::{Greeting, MemberAddress, refused};
use super::message::Reader;

/// The listener of a complete meeting. It never blocks.
#[derive(Debug)]
pub(super) struct LateConnections {
    listener: TcpListener,
    options: RingOptions,
    arrivals: Arrivals,
}

impl LateConnections {
    /// Takes over the meeting's nonblocking listener, and the connections to it that have not sent their greeting.
    pub(super) fn of(listener: TcpListener, arrivals: Arrivals, options: &RingOptions) -> LateConnections {
        LateConnections { listener, options: options.clone(), arrivals }
    }

    /// Returns the file descriptors to poll for input.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.arrivals.fds(&self.listener)
    }

    /// Accepts new connections, and answers and drops those that have sent their greeting.
    pub(super) fn answer(&mut self, members: &[MemberAddress]) {
        for (mut socket, message) in self.arrivals.greeted(&self.listener) {
            // The member may have disconnected.
            let _ = refused(&refusal(message, &self.options, members)).send(&mut socket);
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
