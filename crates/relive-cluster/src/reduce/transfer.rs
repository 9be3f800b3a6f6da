//! A call on a ring: sends and receives concurrently, on one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::limits::CHUNK_BYTES;
use super::schedule::{Combine, Schedule};

/// The bytes before each call: its kind, its length, and its number.
pub(super) type Head = [u8; 24];

/// The nonblocking connections of a member.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) next: TcpStream,
    pub(super) before: TcpStream,
    /// Memory for received numbers before they are added. It consists of float32 numbers so that it is aligned for
    /// them.
    scratch: Vec<f32>,
}

impl Links {
    pub(super) fn new(next: TcpStream, before: TcpStream) -> Links {
        Links { next, before, scratch: vec![0.0; CHUNK_BYTES / 4] }
    }
}

/// The neighbor at which a call failed.
#[derive(Debug)]
pub(super) enum FailedLink {
    Next(io::Error),
    Before(io::Error),
}

/// A call in progress.
pub(super) struct Transfer<'a> {
    buffer: &'a mut [u8],
    schedule: Schedule,
    head: Head,
    head_sent: usize,
    their_head: Head,
    head_received: usize,
    /// The indices of the current parts in both directions, each with the number of completed bytes.
    sending: (usize, usize),
    receiving: (usize, usize),
    /// The number of bytes in the scratch memory that do not form a whole number yet.
    carried: usize,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(head: Head, schedule: Schedule, buffer: &'a mut [u8]) -> Transfer<'a> {
        let (sending, receiving) = ((0, 0), (0, 0));
        let (head_sent, head_received, carried) = (0, 0, 0);
        Transfer {
            buffer,
            schedule,
            head,
            head_sent,
            their_head: [0; 24],
            head_received,
            sending,
            receiving,
            carried,
        }
    }

    /// Returns the call that the preceding member made, once it is known.
    pub(super) fn their_head(&self) -> Option<&Head> {
        (self.head_received == self.head.len()).then_some(&self.their_head)
    }

    /// Returns whether everything has been sent and received.
    pub(super) fn is_done(&self) -> bool {
        self.is_sent() && self.is_received()
    }

    fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && self.sending.0 == self.schedule.sends.len()
    }

    fn is_received(&self) -> bool {
        self.head_received == self.head.len() && self.receiving.0 == self.schedule.receives.len()
    }

    /// Sends and receives as much as possible without blocking. Returns whether there was any progress.
    pub(super) fn advance(&mut self, links: &mut Links) -> Result<bool, FailedLink> {
        // Receives first, because received data may have to be forwarded.
        let received = self.receive(links).map_err(FailedLink::Before)?;
        let sent = self.send(&mut links.next).map_err(FailedLink::Next)?;
        Ok(received || sent)
    }

    /// Waits until it is possible to send or receive, or until the timeout.
    pub(super) fn wait(&self, links: &Links, most: Duration) -> io::Result<()> {
        let mut fds = Vec::with_capacity(2);
        if !self.is_received() {
            fds.push(PollFd::new(&links.before, PollFlags::IN));
        }
        if !self.is_sent() && (self.head_sent < self.head.len() || self.sendable() > 0) {
            fds.push(PollFd::new(&links.next, PollFlags::OUT));
        }
        let timeout = Timespec::try_from(most).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the available bytes of the part that is being sent.
    fn sendable(&self) -> usize {
        let ((index, done), own) = (self.sending, self.schedule.own);
        let Some(part) = self.schedule.sends.get(index) else { return 0 };
        let there = match index.checked_sub(own) {
            None => part.len(),
            Some(source) if source < self.receiving.0 => part.len(),
            Some(source) if source == self.receiving.0 => self.receiving.1,
            Some(_) => 0,
        };
        there - done
    }

    fn send(&mut self, next: &mut TcpStream) -> io::Result<bool> {
        let mut has_sent = false;
        while self.head_sent < self.head.len() {
            let Some(count) = none_if_full(next.write(&self.head[self.head_sent..]))? else {
                return Ok(has_sent);
            };
            (self.head_sent, has_sent) = (self.head_sent + count, true);
        }
        loop {
            while self.schedule.sends.get(self.sending.0).is_some_and(|part| part.len() == self.sending.1) {
                self.sending = (self.sending.0 + 1, 0);
            }
            let count = self.sendable();
            if count == 0 {
                return Ok(has_sent);
            }
            let begin = self.schedule.sends[self.sending.0].start + self.sending.1;
            let written = next.write(&self.buffer[begin..begin + count]);
            let Some(count) = none_if_full(written)? else { return Ok(has_sent) };
            (self.sending.1, has_sent) = (self.sending.1 + count, true);
        }
    }

    /// Reads once. Returns whether anything was read.
    fn receive(&mut self, links: &mut Links) -> io::Result<bool> {
        if self.head_received < self.head.len() {
            let Some(count) = none_if_empty(links.before.read(&mut self.their_head[self.head_received..]))?
            else {
                return Ok(false);
            };
            self.head_received += count;
            self.skip_empty();
            return Ok(true);
        }
        if self.their_head != self.head {
            // The caller reports the mismatch.
            return Ok(false);
        }
        let Some((part, combine)) = self.schedule.receives.get(self.receiving.0).cloned() else {
            return Ok(false);
        };
        let rest = part.start + self.receiving.1..part.end;
        let done = match combine {
            Combine::Copy => none_if_empty(links.before.read(&mut self.buffer[rest]))?,
            Combine::Add => self.add(links, rest, None)?,
            Combine::AddLast(scale) => self.add(links, rest, Some(scale))?,
        };
        let Some(count) = done else { return Ok(false) };
        self.receiving.1 += count;
        self.skip_empty();
        Ok(true)
    }

    fn skip_empty(&mut self) {
        while self
            .schedule
            .receives
            .get(self.receiving.0)
            .is_some_and(|(part, _)| part.len() == self.receiving.1)
        {
            self.receiving = (self.receiving.0 + 1, 0);
        }
    }

    /// Adds received numbers to this member's own. Returns the number of completed bytes.
    fn add(
        &mut self,
        Links { before, scratch, .. }: &mut Links,
        rest: std::ops::Range<usize>,
        scale: Option<f32>,
    ) -> io::Result<Option<usize>> {
        let room = CHUNK_BYTES.min(rest.len());
        let bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(scratch)[..room];
        let Some(count) = none_if_empty(before.read(&mut bytes[self.carried..]))? else { return Ok(None) };
        let filled = self.carried + count;
        let whole = filled - filled % 4;
        // The buffer contains float32 numbers, and each part consists of complete numbers.
        let own: &mut [f32] = bytemuck::cast_slice_mut(&mut self.buffer[rest.start..rest.start + whole]);
        let received: &[f32] = &scratch[..whole / 4];
        match scale {
            None => own.iter_mut().zip(received).for_each(|(own, received)| *own += received),
            Some(scale) => {
                own.iter_mut().zip(received).for_each(|(own, received)| *own = (*own + received) * scale);
            }
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        bytes.copy_within(whole..filled, 0);
        self.carried = filled - whole;
        Ok(Some(whole))
    }
}

/// Returns the number of written bytes, or `None` if the buffer is full.
fn none_if_full(written: io::Result<usize>) -> io::Result<Option<usize>> {
    match written {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the number of read bytes, or `None` if there is no data.
fn none_if_empty(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match none_if_full(read)? {
        Some(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
        count => Ok(count),
    }
}
