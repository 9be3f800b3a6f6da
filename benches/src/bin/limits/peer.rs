//! The other process: this program again, which takes what it is sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use crate::records::Records;
use crate::stream::DONE;
use crate::{Outcome, shared};

/// The first word of its command line.
pub(crate) const MARK: &str = "--receive";

/// Receives over `transport` from `place` until the sender is through.
pub(crate) fn run(transport: &str, place: &str) -> Outcome {
    match transport {
        "tcp" => drain(TcpStream::connect(place)?),
        "enciphered" => drain(Records::new(TcpStream::connect(place)?)?),
        "unix" => drain(UnixStream::connect(place)?),
        "shared" => shared::receive(place),
        _ => Err(format!("there is no transport {transport}").into()),
    }
}

/// A receiver that ends with whoever started it.
pub(crate) struct Receiver(Child);

impl Receiver {
    pub(crate) fn start(transport: &str, place: &str) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        Ok(Self(Command::new(program).args([MARK, transport, place]).spawn()?))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Blocks of the size that is announced first, up to the one that says that it is the last; each of those is answered.
fn drain(mut stream: impl Read + Write) -> Outcome {
    let mut size = [0; 4];
    loop {
        stream.read_exact(&mut size)?;
        let bytes = usize::try_from(u32::from_le_bytes(size))?;
        if bytes == 0 {
            return Ok(());
        }
        let mut block = vec![0; bytes];
        while block.first() != Some(&DONE) {
            stream.read_exact(&mut block)?;
        }
        stream.write_all(&[DONE])?;
    }
}
