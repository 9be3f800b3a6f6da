//! Sends items over the bulk path: requests are sent as frames, and confirmations are received.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;

use futures_core::Stream;
use relive_connection::{Dialer, refusal};
use relive_transport::{FrameWriter, Frames, ReadError};
use relive_wire::Message;
use relive_wire::bulk::{FrameError, FrameHeader, FrameKind, InsertFrame, MAGIC};
use relive_wire::v1::{InsertItems, OpenWriter};
use tonic::Status;

/// A connection that carries items.
pub(crate) struct ItemConnection {
    frames: Frames,
    /// Whether the server has sent anything yet.
    has_answered: bool,
}

impl ItemConnection {
    pub(crate) async fn open(dialer: &Dialer) -> Result<ItemConnection, Status> {
        let frames = dialer.dial().await.map(Frames::new).map_err(|error| broken(&error))?;
        frames.send(&mut [IoSlice::new(MAGIC)]).await.map_err(|error| broken(&error))?;
        let open = OpenWriter { token: dialer.token() }.encode_to_vec();
        frames.send_frame(FrameKind::OpenWriter, &open, &[]).await.map_err(|error| broken(&error))?;
        Ok(ItemConnection { frames, has_answered: false })
    }

    /// Returns whether a server has answered that supports this protocol.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Sends all `requests` and passes on the confirmed keys, until the server has confirmed the last one. Sending and
    /// receiving are concurrent, because a server stops reading if its output is not read.
    pub(crate) async fn run(
        &mut self,
        requests: impl Stream<Item = InsertItems>,
        mut confirm: impl FnMut(&[u64]),
    ) -> Result<(), Status> {
        let mut sending = pin!(send_all(self.frames.writer(), requests));
        let mut is_ended = false;
        loop {
            tokio::select! {
                biased;
                frame = self.frames.next() => {
                    let Some((header, head)) = frame.map_err(unreadable)? else {
                        let early = || Status::unavailable("the server ended the connection");
                        return if is_ended { Ok(()) } else { Err(early()) };
                    };
                    self.has_answered = true;
                    self.take_in(&header, &head, &mut confirm).await?;
                }
                sent = sending.as_mut(), if !is_ended => {
                    sent?;
                    is_ended = true;
                }
            }
        }
    }

    async fn take_in(
        &mut self,
        header: &FrameHeader,
        head: &[u8],
        confirm: &mut impl FnMut(&[u64]),
    ) -> Result<(), Status> {
        match header.kind {
            FrameKind::Confirm => {
                let body = self.frames.read_bytes(header.body_len()).await;
                let body = body.map_err(|error| broken(&error))?;
                let (keys, rest) = body.as_chunks();
                if !rest.is_empty() {
                    return Err(Status::internal("the server sent a confirmation with a truncated key"));
                }
                confirm(&keys.iter().map(|key| u64::from_le_bytes(*key)).collect::<Vec<_>>());
                Ok(())
            }
            FrameKind::Error => Err(refusal(head)),
            kind => Err(Status::internal(format!("the server sent an unexpected frame {kind:?}"))),
        }
    }
}

/// Sends all requests and then an end marker.
async fn send_all(writer: FrameWriter, requests: impl Stream<Item = InsertItems>) -> Result<(), Status> {
    let mut requests = pin!(requests);
    let mut frame = InsertFrame::default();
    while let Some(request) = poll_fn(|cx| requests.as_mut().poll_next(cx)).await {
        frame.fill(request).map_err(|error| too_large(&error))?;
        let mut parts: Vec<IoSlice<'_>> = frame.parts().map(IoSlice::new).collect();
        writer.send(&mut parts).await.map_err(|error| broken(&error))?;
        // Releases the chunks immediately. Otherwise, they would stay in memory until the next request, even after
        // their confirmation.
        frame.clear(MAX_KEPT_BYTES);
    }
    writer.send_frame(FrameKind::End, &[], &[]).await.map_err(|error| broken(&error))
}

/// The largest amount of memory that is kept between requests: twice as much as requests of small items need.
const MAX_KEPT_BYTES: usize = 4 << 20;

fn broken(error: &io::Error) -> Status {
    Status::unavailable(error.to_string())
}

fn unreadable(error: ReadError) -> Status {
    match error {
        ReadError::Io(error) => broken(&error),
        ReadError::Frame(error) => Status::internal(format!("the server sent {error}")),
    }
}

fn too_large(error: &FrameError) -> Status {
    Status::resource_exhausted(error.to_string())
}
