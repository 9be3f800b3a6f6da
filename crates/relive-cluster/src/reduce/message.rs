//! Messages between members: a length of 4 bytes, followed by the content. Numbers are little endian; a text consists
//! of its length (4 bytes) and its bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::limits::{MAX_MESSAGE_BYTES, MAX_TEXT_BYTES};

/// A message to be written.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn number(mut self, number: u64) -> Writer {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn text(mut self, text: &str) -> Writer {
        let bytes = text.as_bytes();
        let bytes = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
        self.0.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Returns the message, preceded by its length.
    pub(super) fn framed(self) -> Vec<u8> {
        let mut bytes = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.0);
        bytes
    }

    pub(super) fn send(self, to: &mut TcpStream) -> io::Result<()> {
        to.write_all(&self.framed())
    }
}

/// A received message.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    pub(super) fn new(bytes: Vec<u8>) -> Reader {
        Reader { bytes, at: 0 }
    }

    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(count);
        let part =
            end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| invalid("it is truncated"))?;
        self.at += count;
        Ok(part)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns a number that is a rank or a count of ranks.
    pub(super) fn rank(&mut self) -> io::Result<u32> {
        u32::try_from(self.number()?).map_err(|_| invalid("a rank is too large"))
    }

    pub(super) fn text(&mut self) -> io::Result<String> {
        let mut length = [0; 4];
        length.copy_from_slice(self.take(4)?);
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_TEXT_BYTES {
            return Err(invalid("a text is too long"));
        }
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// Receives the next message on a connection, with a deadline.
    pub(super) fn receive(from: &mut TcpStream, until: Instant) -> io::Result<Reader> {
        let mut length = [0; 4];
        read_exact(from, &mut length, until)?;
        let length = checked(length)?;
        let mut bytes = vec![0; length];
        read_exact(from, &mut bytes, until)?;
        from.set_read_timeout(None)?;
        Ok(Reader::new(bytes))
    }
}

/// Checks the length of a message.
fn checked(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(invalid("it is not a member of a ring, or has another version"));
    }
    Ok(length)
}

fn read_exact(from: &mut TcpStream, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "it does not send anything"));
        }
        from.set_read_timeout(Some(left))?;
        match from.read(bytes) {
            Ok(0) => return Err(ended()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Extracts complete messages from the bytes received so far.
#[derive(Debug, Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    /// Reads once. Returns whether the connection is still open. The socket may block, so data must be
    /// available.
    pub(super) fn fill(&mut self, from: &mut TcpStream) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        match from.read(&mut bytes) {
            Ok(count) => {
                self.0.extend_from_slice(&bytes[..count]);
                Ok(count > 0)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads from a nonblocking socket up to the end of the next message: what follows may belong to another reader.
    /// Returns the message once it is complete.
    pub(super) fn receive(&mut self, from: &mut TcpStream) -> io::Result<Option<Reader>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            let length = self.0.first_chunk().map_or(Ok(0), |length| checked(*length))?;
            let missing = (4 + length).saturating_sub(self.0.len());
            match Read::take(&mut *from, missing as u64).read_to_end(&mut self.0) {
                Ok(0) => return Err(ended()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next message, if it is complete.
    pub(super) fn next(&mut self) -> io::Result<Option<Reader>> {
        let Some((length, rest)) = self.0.split_first_chunk::<4>() else { return Ok(None) };
        let length = checked(*length)?;
        let Some(message) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.0.drain(..4 + length);
        Ok(Some(Reader::new(message)))
    }
}

fn ended() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")
}

pub(super) fn invalid(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_messages_are_refused() {
        let message = Writer::default().number(7).text("a job").framed();
        let mut whole = Reader::new(message[4..].to_vec());
        assert_eq!((whole.number().unwrap(), whole.text().unwrap()), (7, "a job".to_owned()));
        assert!(whole.number().is_err());
        let mut short = Reader::new(message[4..14].to_vec());
        assert!(short.number().is_ok() && short.text().is_err());
        let mut long = Reader::new(Writer::default().number(u64::MAX).0);
        assert!(long.text().is_err());
        assert!(Reader::new(u64::MAX.to_le_bytes().to_vec()).rank().is_err());
    }

    #[test]
    fn an_inbox_returns_only_complete_messages() {
        let message = Writer::default().text("one").framed();
        let mut inbox = Inbox(message[..5].to_vec());
        assert!(inbox.next().unwrap().is_none());
        inbox.0.extend_from_slice(&message[5..]);
        inbox.0.extend_from_slice(&message);
        for _ in 0..2 {
            assert_eq!(inbox.next().unwrap().unwrap().text().unwrap(), "one");
        }
        assert!(inbox.next().unwrap().is_none() && inbox.0.is_empty());
        assert!(Inbox(b"GET / HTTP/1.1".to_vec()).next().is_err());
    }

    #[test]
    fn an_inbox_leaves_the_bytes_after_a_message_in_the_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiving = listener.accept().unwrap().0;
        let (message, mut inbox) = (Writer::default().text(&"long ".repeat(800)).framed(), Inbox::default());
        receiving.set_nonblocking(true).unwrap();
        assert!(inbox.receive(&mut receiving).unwrap().is_none());
        sending.write_all(&[&message[..], b"what follows"].concat()).unwrap();
        drop(sending);
        receiving.set_nonblocking(false).unwrap();
        assert_eq!(inbox.receive(&mut receiving).unwrap().unwrap().text().unwrap().len(), 4000);
        let mut left = String::new();
        receiving.read_to_string(&mut left).unwrap();
        assert_eq!(left, "what follows");
        assert_eq!(inbox.receive(&mut receiving).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
