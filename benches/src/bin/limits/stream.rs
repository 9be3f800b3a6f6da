//! Measures large blocks over sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use relive_benches::Outcome;

use crate::rate::rate;
use crate::receiver::Receiver;
use crate::records::Records;

/// Block sizes. The best result counts, so that it shows the limit of the transport.
const BLOCK_BYTES: [u32; 3] = [64 << 10, 256 << 10, 1 << 20];

/// The first byte of the last block of each size.
const DONE: u8 = 1;

pub(crate) fn tcp(time: Duration) -> Outcome<f64> {
    let (stream, _receiver) = connected("tcp")?;
    send(stream, time)
}

pub(crate) fn encrypted(time: Duration) -> Outcome<f64> {
    let (stream, _receiver) = connected("encrypted")?;
    send(Records::new(stream)?, time)
}

fn connected(transport: &str) -> Outcome<(TcpStream, Receiver)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let receiver = Receiver::start(transport, &listener.local_addr()?.to_string())?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok((stream, receiver))
}

pub(crate) fn unix(time: Duration) -> Outcome<f64> {
    let folder = crate::shared::Folder::new("unix")?;
    let place = folder.path("socket");
    let listener = UnixListener::bind(&place)?;
    let _receiver = Receiver::start("unix", &place)?;
    let (stream, _) = listener.accept()?;
    send(stream, time)
}

fn send(mut stream: impl Read + Write, time: Duration) -> Outcome<f64> {
    let mut best = 0.0_f64;
    for bytes in BLOCK_BYTES {
        best = best.max(blocks(&mut stream, bytes, time / 3)?);
    }
    stream.write_all(&0_u32.to_le_bytes())?;
    Ok(best)
}

fn blocks(stream: &mut (impl Read + Write), bytes: u32, time: Duration) -> Outcome<f64> {
    stream.write_all(&bytes.to_le_bytes())?;
    let mut block = vec![0; usize::try_from(bytes)?];
    let (start, mut sent) = (Instant::now(), 0);
    while block[0] != DONE {
        if start.elapsed() >= time {
            block[0] = DONE;
        }
        stream.write_all(&block)?;
        sent += u64::from(bytes);
    }
    stream.read_exact(&mut [0])?;
    Ok(rate(sent, start.elapsed()))
}

/// Receives blocks of the size that is sent first, up to a block marked as the last one, and acknowledges this block.
pub(crate) fn drain(mut stream: impl Read + Write) -> Outcome {
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
