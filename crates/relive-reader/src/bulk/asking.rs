//! Requesting batches: on the thread that takes them if the socket accepts the request immediately, which saves a
//! wake-up; otherwise on the connection's task.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::Mutex;
use relive_transport::FrameWriter;
use relive_wire::Message;
use relive_wire::bulk::{FrameHeader, FrameKind};
use relive_wire::v1::AskBatches;
use tokio::sync::Notify;

use super::lent::Freed;

/// What to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) batches: u64,
    pub(super) taken_bytes: u64,
}

/// Sends requests on the thread that needs them, unless it would have to wait.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// `None` while the task uses it, and without a connection.
    line: Mutex<Option<Line>>,
    /// Notifies the task of work.
    work: Notify,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Line {
    writer: FrameWriter,
    freed: Arc<Freed>,
    /// The unsent rest of a frame.
    rest: Vec<u8>,
    fault: Option<io::Error>,
}

impl Asking {
    /// Sends a request without waiting.
    pub(super) fn now(&self, ask: impl FnOnce() -> Option<Ask>) {
        let is_through = self.line.lock().as_mut().is_some_and(|line| line.try_ask(ask));
        if !is_through {
            self.soon();
        }
    }

    /// Makes the task send the request.
    pub(super) fn soon(&self) {
        self.work.notify_one();
    }

    /// The task: sends requests that no other thread has sent, until an error occurs.
    pub(super) async fn over(&self, mut line: Line, ask: impl Fn() -> Option<Ask>) -> io::Result<Infallible> {
        loop {
            if let Some(fault) = line.fault.take() {
                return Err(fault);
            }
            if line.rest.is_empty() {
                let Some(ask) = ask() else {
                    line = self.lend(line).await;
                    continue;
                };
                line.write(ask)?;
            }
            line.writer.send(&mut [IoSlice::new(&line.rest)]).await?;
            line.rest.clear();
        }
    }

    /// Lets other threads send requests until they need the task.
    async fn lend(&self, line: Line) -> Line {
        *self.line.lock() = Some(line);
        self.work.notified().await;
        let line = self.line.lock().take();
        match line {
            Some(line) => line,
            None => pending().await,
        }
    }

    /// Stops sending requests over a closed connection.
    pub(super) fn hang_up(&self) {
        *self.line.lock() = None;
    }
}

impl Line {
    pub(super) fn new(writer: FrameWriter, freed: Arc<Freed>) -> Line {
        Line { writer, freed, rest: Vec::new(), fault: None }
    }

    /// Sends the request if the socket accepts it immediately. Returns whether nothing is left for the task.
    fn try_ask(&mut self, ask: impl FnOnce() -> Option<Ask>) -> bool {
        if !self.rest.is_empty() || self.fault.is_some() {
            return false;
        }
        let Some(ask) = ask() else { return true };
        match self.write(ask).and_then(|()| self.writer.try_send(&self.rest)) {
            Ok(sent) => drop(self.rest.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.fault = Some(error),
        }
        self.rest.is_empty() && self.fault.is_none()
    }

    /// Writes the frame of a request.
    fn write(&mut self, ask: Ask) -> io::Result<()> {
        let (free_slots, kept_slots) = self.freed.take();
        let ask = AskBatches { batches: ask.batches, taken_bytes: ask.taken_bytes, free_slots, kept_slots };
        let header = FrameHeader::new(FrameKind::Ask, ask.encoded_len(), 0).map_err(io::Error::other)?;
        self.rest.extend_from_slice(&header.encode());
        ask.encode(&mut self.rest).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use relive_transport::{Frames, Socket};
    use tokio::net::UnixStream;

    use super::*;

    async fn asked(server: &mut Frames) -> u64 {
        let (header, head) = server.next().await.unwrap().unwrap();
        assert_eq!(header.kind, FrameKind::Ask);
        AskBatches::decode(head.as_slice()).unwrap().batches
    }

    #[tokio::test]
    async fn who_takes_asks_and_the_task_sends_what_the_socket_does_not_take() {
        let (client, server) = UnixStream::pair().unwrap();
        let (client, mut server) = (Frames::new(Socket::Unix(client)), Frames::new(Socket::Unix(server)));
        let asking = Asking::default();
        let ask = |batches| move || Some(Ask { batches, taken_bytes: 0 });
        asking.now(|| unreachable!("there is no connection yet"));
        let line = Line::new(client.writer(), Arc::default());
        let mut task = pin!(asking.over(line, || None));
        let has_ended = poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_ready())).await;
        assert!(!has_ended, "it waits for something to do");
        asking.now(ask(1));
        assert_eq!(asked(&mut server).await, 1, "without the task");
        let is_full = || asking.line.lock().as_ref().is_some_and(|line| !line.rest.is_empty());
        let mut sent = 0;
        while !is_full() {
            asking.now(ask(2));
            sent += 1;
        }
        asking.now(|| unreachable!("a frame has not gone out yet"));
        for _ in 0..sent {
            tokio::select! {
                Err(error) = task.as_mut() => panic!("{error}"),
                batches = asked(&mut server) => assert_eq!(batches, 2),
            }
        }
        asking.now(ask(3));
        assert_eq!(asked(&mut server).await, 3);
    }
}
