//! Requests batches. The thread that takes a batch sends the request itself if the socket accepts it immediately, which
//! saves a wake-up. Otherwise, the connection's task sends it.

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

use super::shared_piece::Freed;

/// The content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchRequest {
    pub(super) batches: u64,
    pub(super) taken_bytes: u64,
    /// Withdraws all earlier requests.
    pub(super) withdraw: bool,
}

impl BatchRequest {
    pub(super) fn of(batches: u64, taken_bytes: u64) -> BatchRequest {
        BatchRequest { batches, taken_bytes, withdraw: false }
    }
}

/// Sends requests on the thread that needs them, unless that thread would have to wait.
#[derive(Debug, Default)]
pub(super) struct RequestSender {
    /// `None` while the task is using the connection, or if there is no connection.
    send_half: Mutex<Option<SendHalf>>,
    /// Notifies the task that there is work.
    work: Notify,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct SendHalf {
    writer: FrameWriter,
    freed: Arc<Freed>,
    /// The unsent rest of a frame.
    rest: Vec<u8>,
    fault: Option<io::Error>,
}

impl RequestSender {
    /// Sends a request without waiting.
    pub(super) fn now(&self, ask: impl FnOnce() -> Option<BatchRequest>) {
        let is_through = self.send_half.lock().as_mut().is_some_and(|send_half| send_half.try_ask(ask));
        if !is_through {
            self.soon();
        }
    }

    /// Makes the task send the request.
    pub(super) fn soon(&self) {
        self.work.notify_one();
    }

    /// Runs the task, which sends requests that no other thread has sent, until an error occurs.
    pub(super) async fn over(
        &self,
        mut send_half: SendHalf,
        ask: impl Fn() -> Option<BatchRequest>,
    ) -> io::Result<Infallible> {
        loop {
            if let Some(fault) = send_half.fault.take() {
                return Err(fault);
            }
            if send_half.rest.is_empty() {
                let Some(ask) = ask() else {
                    send_half = self.lend(send_half).await;
                    continue;
                };
                send_half.write(ask)?;
            }
            send_half.writer.send(&mut [IoSlice::new(&send_half.rest)]).await?;
            send_half.rest.clear();
        }
    }

    /// Lets other threads send requests until one of them needs the task.
    async fn lend(&self, send_half: SendHalf) -> SendHalf {
        *self.send_half.lock() = Some(send_half);
        self.work.notified().await;
        let send_half = self.send_half.lock().take();
        match send_half {
            Some(send_half) => send_half,
            None => pending().await,
        }
    }

    /// Drops the sending half of a closed connection.
    pub(super) fn disconnect(&self) {
        *self.send_half.lock() = None;
    }
}

impl SendHalf {
    pub(super) fn new(writer: FrameWriter, freed: Arc<Freed>) -> SendHalf {
        SendHalf { writer, freed, rest: Vec::new(), fault: None }
    }

    /// Sends the request if the socket accepts it immediately. Returns whether the task has nothing left to send.
    fn try_ask(&mut self, ask: impl FnOnce() -> Option<BatchRequest>) -> bool {
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
    fn write(&mut self, ask: BatchRequest) -> io::Result<()> {
        let (free_slots, kept_slots) = self.freed.take();
        let BatchRequest { batches, taken_bytes, withdraw } = ask;
        let ask = AskBatches { batches, taken_bytes, free_slots, kept_slots, withdraw };
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

    async fn received_batches(server: &mut Frames) -> u64 {
        let (header, head) = server.next().await.unwrap().unwrap();
        assert_eq!(header.kind, FrameKind::Ask);
        AskBatches::decode(head.as_slice()).unwrap().batches
    }

    #[tokio::test]
    async fn requests_the_socket_does_not_accept_are_sent_by_the_task() {
        let (client, server) = UnixStream::pair().unwrap();
        let (client, mut server) = (Frames::new(Socket::Unix(client)), Frames::new(Socket::Unix(server)));
        let requests = RequestSender::default();
        let ask = |batches| move || Some(BatchRequest::of(batches, 0));
        requests.now(|| unreachable!("there is no connection yet"));
        let send_half = SendHalf::new(client.writer(), Arc::default());
        let mut task = pin!(requests.over(send_half, || None));
        let has_ended = poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx).is_ready())).await;
        assert!(!has_ended, "it waits for a request to send");
        requests.now(ask(1));
        assert_eq!(received_batches(&mut server).await, 1, "without the task");
        let is_full =
            || requests.send_half.lock().as_ref().is_some_and(|send_half| !send_half.rest.is_empty());
        let mut sent = 0;
        while !is_full() {
            requests.now(ask(2));
            sent += 1;
        }
        requests.now(|| unreachable!("an earlier frame has not been sent yet"));
        for _ in 0..sent {
            tokio::select! {
                Err(error) = task.as_mut() => panic!("{error}"),
                batches = received_batches(&mut server) => assert_eq!(batches, 2),
            }
        }
        requests.now(ask(3));
        assert_eq!(received_batches(&mut server).await, 3);
    }
}
