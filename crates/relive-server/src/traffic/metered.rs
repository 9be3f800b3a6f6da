//! A socket that counts the incoming data of HTTP/2 streams, and that is not read while too much of this data is
//! unread.

use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use relive_transport::Socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::windows::Window;

/// The number of bytes that begin every connection.
const PREFACE_BYTES: usize = 24;

/// The number of bytes in a frame before its payload: three for the length, one for the kind, one for the flags, and
/// four for the stream.
const HEADER_BYTES: usize = 9;

/// Kinds of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

/// The flag of the last frame in one direction of a stream.
const END_STREAM: u8 = 1;

#[derive(Debug)]
pub(crate) struct Metered {
    socket: Socket,
    window: Arc<Window>,
    incoming: Scanner,
    outgoing: Scanner,
    /// The open streams. Their data is read, or dropped with them; data of other streams is not counted.
    open: HashSet<u32>,
    /// Whether the current data belongs to an open stream.
    counts: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Metered {
    pub(crate) fn new(socket: Socket, window: Arc<Window>) -> Self {
        let (incoming, outgoing) = (Scanner::after(PREFACE_BYTES), Scanner::after(0));
        Self { socket, window, incoming, outgoing, open: HashSet::new(), counts: false, waiting: None }
    }

    fn note_received(&mut self, bytes: &[u8]) {
        let Self { incoming, open, counts, .. } = self;
        let mut found = 0;
        incoming.scan(bytes, |part| match part {
            Part::Frame { kind, flags, stream } => {
                *counts = kind == DATA && open.contains(&stream);
                match kind {
                    RST_STREAM => drop(open.remove(&stream)),
                    DATA | HEADERS if flags & END_STREAM != 0 => drop(open.remove(&stream)),
                    HEADERS => drop(open.insert(stream)),
                    _ => {}
                }
            }
            Part::Payload(len) if *counts => found += len as u64,
            Part::Payload(_) => {}
        });
        if found > 0 {
            self.window.received(found);
        }
    }

    fn note_sent(&mut self, bytes: &[u8]) {
        let open = &mut self.open;
        self.outgoing.scan(bytes, |part| {
            if let Part::Frame { kind, flags, stream } = part
                && (kind == RST_STREAM || (matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0))
            {
                open.remove(&stream);
            }
        });
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.window.poll_open(&mut this.waiting, cx));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(cx, buffer))?;
        this.note_received(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.socket).poll_write(cx, bytes))?;
        self.note_sent(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, parts))?;
        let mut left = written;
        for part in parts {
            let gone = part.get(..left.min(part.len())).unwrap_or_default();
            self.note_sent(gone);
            left -= gone.len();
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Parses the frames of one direction. If the data is not HTTP/2, other code ends the connection.
#[derive(Debug)]
struct Scanner {
    /// The remaining bytes of the preface, or of a frame's payload.
    left: usize,
    header: [u8; HEADER_BYTES],
    /// The number of bytes in the header that have arrived.
    begun: usize,
}

/// The next part of the data.
enum Part {
    Frame {
        kind: u8,
        flags: u8,
        stream: u32,
    },
    /// The payload of the current frame, of which this many bytes remain.
    Payload(usize),
}

impl Scanner {
    fn after(preface: usize) -> Self {
        Self { left: preface, header: [0; HEADER_BYTES], begun: 0 }
    }

    fn scan(&mut self, mut bytes: &[u8], mut found: impl FnMut(Part)) {
        while !bytes.is_empty() {
            let passed = self.left.min(bytes.len());
            if passed > 0 {
                found(Part::Payload(passed));
                self.left -= passed;
                bytes = bytes.get(passed..).unwrap_or_default();
            }
            if self.left == 0 {
                bytes = self.read_header(bytes, &mut found);
            }
        }
    }

    /// Reads the available part of a header. Returns the rest of the bytes.
    fn read_header<'a>(&mut self, bytes: &'a [u8], found: &mut impl FnMut(Part)) -> &'a [u8] {
        let missing = self.header.get_mut(self.begun..).unwrap_or_default();
        let (part, rest) = bytes.split_at(missing.len().min(bytes.len()));
        missing.iter_mut().zip(part).for_each(|(place, byte)| *place = *byte);
        self.begun += part.len();
        if self.begun == HEADER_BYTES {
            let [high, middle, low, kind, flags, stream @ ..] = self.header;
            self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
            self.begun = 0;
            found(Part::Frame { kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) });
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relive_transport::Socket;
    use tokio::net::UnixStream;

    use super::*;
    use crate::traffic::Traffic;

    fn frame(kind: u8, flags: u8, stream: u8, len: usize) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(len).unwrap().to_be_bytes();
        [&[high, middle, low, kind, flags, 0, 0, 0, stream][..], &vec![7; len]].concat()
    }

    /// Returns the number of unread bytes after `incoming` has arrived in pieces of `piece` bytes.
    fn unread(incoming: &[u8], piece: usize) -> u64 {
        let traffic = Traffic::new(1 << 30);
        let connection_budget = traffic.enter(&Arc::from("a client"));
        let socket = Socket::Unix(UnixStream::pair().unwrap().0);
        let mut metered = Metered::new(socket, Arc::clone(connection_budget.window()));
        incoming.chunks(piece).for_each(|part| metered.note_received(part));
        traffic.unread_bytes()
    }

    #[tokio::test]
    async fn data_of_open_streams_counts_however_it_is_framed() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let incoming = [
            preface,
            frame(4, 0, 0, 12),
            frame(HEADERS, 4, 1, 50),
            frame(DATA, 0, 1, 300),
            frame(DATA, 0, 1, 0),
            frame(DATA, 0, 3, 1_000),
            frame(8, 0, 0, 4),
            frame(DATA, END_STREAM, 1, 70_000),
            frame(DATA, 0, 1, 9),
            frame(HEADERS, 4, 5, 50),
            frame(RST_STREAM, 0, 5, 4),
            frame(DATA, 0, 5, 9),
        ]
        .concat();
        for piece in [1, 2, 7, 24, 33, 1_000, incoming.len()] {
            assert_eq!(unread(&incoming, piece), 70_300, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn data_of_streams_ended_by_the_server_is_not_counted() {
        let traffic = Traffic::new(1 << 30);
        let connection_budget = traffic.enter(&Arc::from("a client"));
        let socket = Socket::Unix(UnixStream::pair().unwrap().0);
        let mut metered = Metered::new(socket, Arc::clone(connection_budget.window()));
        metered.note_received(&[0; PREFACE_BYTES]);
        for (stream, end) in [(1, frame(HEADERS, END_STREAM, 1, 20)), (3, frame(RST_STREAM, 0, 3, 4))] {
            metered.note_received(&frame(HEADERS, 4, stream, 50));
            metered.note_received(&frame(DATA, 0, stream, 100));
            metered.note_sent(&[frame(HEADERS, 4, stream, 30), frame(DATA, 0, stream, 30), end].concat());
            metered.note_received(&frame(DATA, 0, stream, 1_000));
        }
        assert_eq!(traffic.unread_bytes(), 200);
    }
}
