//! Connections from which a greeting is expected. They are read concurrently and without blocking, so that silent ones
//! do not delay the others.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::limits::{GREETING_TIMEOUT, MAX_ARRIVALS};
use super::message::{Inbox, Reader};

/// New connections that have not sent their greeting.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Vec<Arrival>);

#[derive(Debug)]
struct Arrival {
    socket: TcpStream,
    inbox: Inbox,
    until: Instant,
}

impl Arrivals {
    /// Accepts the connections that wait at a nonblocking listener, and reads from all. Returns the connections with a
    /// complete greeting, which are nonblocking, and drops those that have ended or were silent for too long.
    pub(super) fn greeted(&mut self, listener: &TcpListener) -> Vec<(TcpStream, Reader)> {
        // Further connections wait at the listener.
        while self.0.len() < MAX_ARRIVALS
            && let Ok((socket, _)) = listener.accept()
        {
            if socket.set_nonblocking(true).is_ok() {
                let until = Instant::now() + GREETING_TIMEOUT;
                self.0.push(Arrival { socket, inbox: Inbox::default(), until });
            }
        }
        let mut greeted = Vec::new();
        for mut arrival in std::mem::take(&mut self.0) {
            match arrival.inbox.receive(&mut arrival.socket) {
                Ok(Some(message)) => greeted.push((arrival.socket, message)),
                Ok(None) if Instant::now() < arrival.until => self.0.push(arrival),
                Ok(None) => tracing::debug!("a connection to a ring has not sent a greeting"),
                Err(error) => tracing::debug!("a connection to a ring is not from a member: {error}"),
            }
        }
        greeted
    }

    /// Returns the file descriptors to poll for input.
    pub(super) fn fds<'a>(&'a self, listener: &'a TcpListener) -> impl Iterator<Item = PollFd<'a>> {
        // If there is no room, new connections wait, and the listener is not polled.
        let has_room = self.0.len() < MAX_ARRIVALS;
        let listener = has_room.then(|| PollFd::new(listener, PollFlags::IN));
        let sockets = self.0.iter().map(|arrival| PollFd::new(&arrival.socket, PollFlags::IN));
        listener.into_iter().chain(sockets)
    }
}
