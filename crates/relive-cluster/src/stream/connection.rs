//! Whole messages on a socket.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use relive_transport::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::limits::SILENCE;

/// The read size for small messages.
const READ_BYTES: usize = 256 << 10;

/// The maximum amount of memory that is allocated for an announced message. More is allocated as data arrives.
const TRUSTED_BYTES: usize = 16 << 20;

/// Reads messages. A cancelled read continues with the next call.
pub(super) struct Messages {
    socket: ReadHalf<Socket>,
    buffer: BytesMut,
}

impl Messages {
    pub(super) fn new(socket: ReadHalf<Socket>) -> Messages {
        Messages { socket, buffer: BytesMut::new() }
    }

    /// Reads the next message, up to a maximum size.
    ///
    /// # Errors
    /// The connection has ended or is dead, or the message exceeds the maximum size.
    pub(super) async fn next(&mut self, most: usize) -> io::Result<Bytes> {
        let length = loop {
            match self.buffer.first_chunk::<4>() {
                Some(length) => break u32::from_le_bytes(*length) as usize,
                None => self.read(READ_BYTES).await?,
            }
        };
        if length > most {
            let text = format!("a message has {length} bytes; the limit is {most}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        while self.buffer.len() < 4 + length {
            let missing = 4 + length - self.buffer.len();
            self.read(missing.clamp(READ_BYTES, TRUSTED_BYTES)).await?;
        }
        self.buffer.advance(4);
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn read(&mut self, room: usize) -> io::Result<()> {
        self.buffer.reserve(room);
        match tokio::time::timeout(SILENCE, self.socket.read_buf(&mut self.buffer)).await {
            Ok(Ok(0)) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed the connection"))
            }
            Ok(read) => read.map(drop),
            Err(_) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing was received for {SILENCE:?}")))
            }
        }
    }
}

/// Writes a message that consists of the given parts.
///
/// # Errors
/// The connection has ended, or the peer does not read.
pub(super) async fn write(socket: &mut WriteHalf<Socket>, parts: &[Bytes]) -> io::Result<()> {
    for part in parts {
        // A message is written in pieces, because writing a whole message may take longer than the permitted silence of
        // a live peer.
        for piece in part.chunks(TRUSTED_BYTES) {
            tokio::time::timeout(SILENCE, socket.write_all(piece)).await.map_err(|_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the other side read nothing for {SILENCE:?}"),
                )
            })??;
        }
    }
    socket.flush().await
}
