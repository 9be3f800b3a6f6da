//! The receiving process, which runs this program with other arguments.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use relive_benches::Outcome;

use crate::records::Records;
use crate::shared;
use crate::stream::drain;

/// Receives over `transport` from `place` until the sender ends.
pub(crate) fn run(transport: &str, place: &str) -> Outcome {
    match transport {
        "tcp" => drain(TcpStream::connect(place)?),
        "encrypted" => drain(Records::new(TcpStream::connect(place)?)?),
        "unix" => drain(UnixStream::connect(place)?),
        "shared" => shared::receive(place),
        _ => Err(format!("there is no transport {transport}").into()),
    }
}
