//! Those that come to a meeting when all members are there: they are told so at once.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::RingOptions;
use super::greeting::{Greeting, MemberAddress, refused};
use super::limits::{GREETING_TIMEOUT, MAX_LATECOMERS};
use super::message::{Inbox, Reader};

/// The door of a meeting that is over. It does not wait for anybody.
#[derive(Debug)]
pub(super) struct Latecomers {
    listener: TcpListener,
    options: RingOptions,
    /// They have connected, and have not said yet who they are.
    connected: Vec<Latecomer>,
}

#[derive(Debug)]
struct Latecomer {
    socket: TcpStream,
    inbox: Inbox,
    until: Instant,
}

impl Latecomers {
    /// Those of a meeting, whose listener does not wait.
    pub(super) fn of(listener: TcpListener, options: &RingOptions) -> Latecomers {
        Latecomers { listener, options: options.clone(), connected: Vec::new() }
    }

    /// What has to be looked at when there is something to read.
    pub(super) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Those for which there is no room wait, and are not looked for meanwhile.
        let has_room = self.connected.len() < MAX_LATECOMERS;
        let listener = has_room.then(|| PollFd::new(&self.listener, PollFlags::IN));
        let sockets = self.connected.iter().map(|latecomer| PollFd::new(&latecomer.socket, PollFlags::IN));
        listener.into_iter().chain(sockets)
    }

    /// Accepts whoever has come, and answers those that have said who they are.
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
    /// Reads what it has sent. Once it has said who it is, it is answered, and not heard any more.
    fn is_to_be_heard(&mut self, options: &RingOptions, members: &[MemberAddress]) -> bool {
        let is_open = self.inbox.fill(&mut self.socket).unwrap_or(false);
        match self.inbox.next() {
            Ok(Some(message)) => {
                // It may have gone again.
                let _ = refused(&refusal(message, options, members)).send(&mut self.socket);
                false
            }
            Ok(None) => is_open && Instant::now() < self.until,
            Err(_) => false,
        }
    }
}

fn refusal(message: Reader, options: &RingOptions, members: &[MemberAddress]) -> String {
    let Ok(greeting) = Greeting::read(message) else { return "it is no member of a ring".to_owned() };
    let taken = || {
        let rank = greeting.rank;
        let by = members.get(rank as usize).map_or_else(String::new, |place| format!(" by {place}"));
        format!("rank {rank} is taken{by}: all {} members of the ring are there", options.ranks)
    };
    greeting.refusal(options).unwrap_or_else(taken)
}
