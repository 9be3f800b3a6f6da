//! One call of a ring: bytes go out and come in at once, on one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::limits::CHUNK_BYTES;
use super::schedule::{Combine, Schedule};

/// Bytes before each call: what is called, the length, and the call's number.
pub(super) type Head = [u8; 24];

/// The connections of a member, which do not wait.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) next: TcpStream,
    pub(super) before: TcpStream,
    /// What is read before it is added, in float32 for its alignment.
    scratch: Vec<f32>,
}

impl Links {
    pub(super) fn new(next: TcpStream, before: TcpStream) -> Links {
        Links { next, before, scratch: vec![0.0; CHUNK_BYTES / 4] }
    }
}

/// Which neighbour a call has failed at.
#[derive(Debug)]
pub(super) enum Broken {
    Next(io::Error),
    Before(io::Error),
}

/// A call on its way.
pub(super) struct Transfer<'a> {
    buffer: &'a mut [u8],
    schedule: Schedule,
    head: Head,
    head_sent: usize,
    their_head: Head,
    head_came: usize,
    /// The part that is being sent and the one that comes, each with the bytes of it that are done.
    sending: (usize, usize),
    coming: (usize, usize),
    /// Bytes in the scratch memory that are no whole number yet.
    carried: usize,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(head: Head, schedule: Schedule, buffer: &'a mut [u8]) -> Transfer<'a> {
        let (sending, coming) = ((0, 0), (0, 0));
        let (head_sent, head_came, carried) = (0, 0, 0);
        Transfer {
            buffer,
            schedule,
            head,
            head_sent,
            their_head: [0; 24],
            head_came,
            sending,
            coming,
            carried,
        }
    }

    /// What the member before calls, once it is known.
    pub(super) fn their_head(&self) -> Option<&Head> {
        (self.head_came == self.head.len()).then_some(&self.their_head)
    }

    /// Whether everything has been sent, and has come.
    pub(super) fn is_done(&self) -> bool {
        self.is_sent() && self.has_come()
    }

    fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && self.sending.0 == self.schedule.sends.len()
    }

    fn has_come(&self) -> bool {
        self.head_came == self.head.len() && self.coming.0 == self.schedule.receives.len()
    }

    /// Sends and receives what goes without waiting; whether there was something.
    pub(super) fn advance(&mut self, links: &mut Links) -> Result<bool, Broken> {
        // First what comes: it may be sent on.
        let came = self.receive(links).map_err(Broken::Before)?;
        let sent = self.send(&mut links.next).map_err(Broken::Next)?;
        Ok(came || sent)
    }

    /// Waits until something can be sent or has come, for no longer than this.
    pub(super) fn wait(&self, links: &Links, most: Duration) -> io::Result<()> {
        let mut fds = Vec::with_capacity(2);
        if !self.has_come() {
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

    /// Bytes of the part that is being sent that are there.
    fn sendable(&self) -> usize {
        let ((index, done), own) = (self.sending, self.schedule.own);
        let Some(part) = self.schedule.sends.get(index) else { return 0 };
        let there = match index.checked_sub(own) {
            None => part.len(),
            Some(source) if source < self.coming.0 => part.len(),
            Some(source) if source == self.coming.0 => self.coming.1,
            Some(_) => 0,
        };
        there - done
    }

    fn send(&mut self, next: &mut TcpStream) -> io::Result<bool> {
        let mut has_sent = false;
        while self.head_sent < self.head.len() {
            let Some(count) = unless_full(next.write(&self.head[self.head_sent..]))? else {
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
            let Some(count) = unless_full(written)? else { return Ok(has_sent) };
            (self.sending.1, has_sent) = (self.sending.1 + count, true);
        }
    }

    /// Reads once; whether there was something.
    fn receive(&mut self, links: &mut Links) -> io::Result<bool> {
        if self.head_came < self.head.len() {
            let Some(count) = unless_empty(links.before.read(&mut self.their_head[self.head_came..]))? else {
                return Ok(false);
            };
            self.head_came += count;
            self.skip_empty();
            return Ok(true);
        }
        if self.their_head != self.head {
            // Whoever calls this tells of it.
            return Ok(false);
        }
        let Some((part, combine)) = self.schedule.receives.get(self.coming.0).cloned() else {
            return Ok(false);
        };
        let rest = part.start + self.coming.1..part.end;
        let done = match combine {
            Combine::Copy => unless_empty(links.before.read(&mut self.buffer[rest]))?,
            Combine::Add => self.add(links, rest, None)?,
            Combine::AddLast(scale) => self.add(links, rest, Some(scale))?,
        };
        let Some(count) = done else { return Ok(false) };
        self.coming.1 += count;
        self.skip_empty();
        Ok(true)
    }

    fn skip_empty(&mut self) {
        while self.schedule.receives.get(self.coming.0).is_some_and(|(part, _)| part.len() == self.coming.1) {
            self.coming = (self.coming.0 + 1, 0);
        }
    }

    /// Adds what has come to one's own; the bytes that are done.
    fn add(
        &mut self,
        Links { before, scratch, .. }: &mut Links,
        rest: std::ops::Range<usize>,
        scale: Option<f32>,
    ) -> io::Result<Option<usize>> {
        let room = CHUNK_BYTES.min(rest.len());
        let bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(scratch)[..room];
        let Some(count) = unless_empty(before.read(&mut bytes[self.carried..]))? else { return Ok(None) };
        let filled = self.carried + count;
        let whole = filled - filled % 4;
        // The buffer is of float32, and parts are of whole numbers.
        let own: &mut [f32] = bytemuck::cast_slice_mut(&mut self.buffer[rest.start..rest.start + whole]);
        let came: &[f32] = &scratch[..whole / 4];
        match scale {
            None => own.iter_mut().zip(came).for_each(|(own, came)| *own += came),
            Some(scale) => own.iter_mut().zip(came).for_each(|(own, came)| *own = (*own + came) * scale),
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        bytes.copy_within(whole..filled, 0);
        self.carried = filled - whole;
        Ok(Some(whole))
    }
}

/// Bytes that were written; none if there is no room.
fn unless_full(written: io::Result<usize>) -> io::Result<Option<usize>> {
    match written {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes that were read; none if nothing has come.
fn unless_empty(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match unless_full(read)? {
        Some(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it has closed the connection")),
        count => Ok(count),
    }
}
