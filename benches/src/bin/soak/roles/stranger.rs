//! Connections that do not follow the protocol, or stop in the middle of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use relive_wire::bulk::{FrameHeader, FrameKind, MAGIC};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::world::World;
use relive_benches::Outcome;

const PAUSE: Duration = Duration::from_millis(100);

/// The number of connections that are kept open but send nothing more.
const SILENT: usize = 50;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) async fn run(world: Arc<World>, mut rng: Xoshiro256PlusPlus) -> Outcome {
    let mut silent = VecDeque::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        // The server may be down.
        let Ok(mut socket) = TcpStream::connect(world.address()).await else { continue };
        // The server may close the connection at any time.
        let _ = socket.write_all(&message(&mut rng)).await;
        world.counts.garbage.fetch_add(1, Ordering::Relaxed);
        if rng.next_u64().is_multiple_of(2) {
            silent.push_back(socket);
            if silent.len() > SILENT {
                silent.pop_front();
            }
        }
    }
}

/// Returns the beginning of a valid message, followed by random bytes.
fn message(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut noise = vec![0; usize::try_from(rng.next_u64() % 5_000).unwrap_or(0)];
    rng.fill_bytes(&mut noise);
    let beginning = match rng.next_u64() % 5 {
        0 => Vec::new(),
        1 => PREFACE.to_vec(),
        2 => b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        3 => MAGIC.to_vec(),
        _ => {
            let kind = if noise.len().is_multiple_of(2) { FrameKind::Insert } else { FrameKind::Batch };
            let header = FrameHeader::new(kind, noise.len(), 1 << 40).map(|header| header.encode().to_vec());
            [MAGIC.to_vec(), header.unwrap_or_default()].concat()
        }
    };
    [beginning, noise].concat()
}
