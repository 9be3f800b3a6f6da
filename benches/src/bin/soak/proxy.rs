//! A proxy between clients and the server, which cuts connections or is slow.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use relive_benches::Outcome;

/// The bytes that a slow reader reads at once, and its pause between reads.
const SIP_BYTES: usize = 4 << 10;
const SIP_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Proxy {
    pub(crate) address: String,
    cuts: watch::Sender<u64>,
}

impl Proxy {
    /// Starts a proxy in front of `target`; a slow one reads the server's data in small pieces.
    pub(crate) async fn start(target: String, is_slow: bool) -> Outcome<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (cuts, watching) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (target, mut cut) = (target.clone(), watching.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    if let Ok(far) = TcpStream::connect(target).await {
                        // Data of a cut connection must be discarded. Otherwise, the system could deliver old requests
                        // after the client has sent them again, which would revert later changes. Such a fault would be
                        // caused only by the proxy.
                        if far.set_zero_linger().is_err() {
                            return;
                        }
                        tokio::select! { () = forward(near, far, is_slow) => {}, _ = cut.changed() => {} }
                    }
                });
            }
        });
        Ok(Proxy { address, cuts })
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn forward(near: TcpStream, far: TcpStream, is_slow: bool) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    // A broken connection has ended, regardless of the reason.
    let upwards = async { drop(tokio::io::copy(&mut near_in, &mut far_out).await) };
    let downwards = async {
        if !is_slow {
            return drop(tokio::io::copy(&mut far_in, &mut near_out).await);
        }
        let mut buffer = [0; SIP_BYTES];
        while let Ok(read @ 1..) = far_in.read(&mut buffer).await {
            if near_out.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
                return;
            }
            tokio::time::sleep(SIP_PAUSE).await;
        }
    };
    tokio::select! { () = upwards => {}, () = downwards => {} }
}
