//! The connection of a writer, which reconnects when it breaks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use relive_transport::Socket;
use tokio::io::WriteHalf;
use tokio::net::TcpStream;

use super::connection::{Messages, write};
use super::error::StreamError;
use super::limits::SILENCE;
use super::message::ToShard;
use super::outgoing::Outgoing;
use super::wire::{Answer, Join};

/// The pause between two attempts to connect: the first pause, which doubles each time, and the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The maximum size of a message from a reader, which is the size of a rejection with a text.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Keeps a connection to the reader until the stream is over.
pub(super) async fn serve(shared: &Arc<Outgoing>, address: &str) {
    let mut pause = FIRST_PAUSE;
    loop {
        let joined = tokio::select! {
            joined = joined(shared, address) => joined,
            () = shared.left.notified() => return,
        };
        let reason = match joined {
            Ok((messages, socket)) => {
                pause = FIRST_PAUSE;
                shared.joined();
                match connection(shared, messages, socket).await {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let (address, shard) = (address.to_owned(), shared.options.shard);
                return shared.give_up(StreamError::Refused { address, shard, reason: error.to_string() });
            }
            Err(error) => error,
        };
        let silence = {
            let state = shared.lock();
            if state.is_over() {
                return;
            }
            state.sending.silence(shared.now())
        };
        tracing::debug!("the stream of shard {} to {address} broke: {reason}", shared.options.shard);
        if silence >= shared.options.lease {
            let (address, shard, reason) = (address.to_owned(), shared.options.shard, reason.to_string());
            return shared.give_up(StreamError::Lost { address, shard, silence, reason });
        }
        // Dropping the writer also ends this wait.
        let _ = tokio::time::timeout(pause, shared.pushed.notified()).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Connects, and identifies the shard. An error of kind `PermissionDenied` means that the reader rejects the writer.
async fn joined(shared: &Outgoing, address: &str) -> io::Result<(Messages, WriteHalf<Socket>)> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {SILENCE:?}"));
    tokio::time::timeout(SILENCE, handshake(shared, address)).await.map_err(late)?
}

async fn handshake(shared: &Outgoing, address: &str) -> io::Result<(Messages, WriteHalf<Socket>)> {
    let socket = TcpStream::connect(address).await?;
    let access = &shared.options.access;
    let socket = match &access.tls {
        Some(tls) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            Socket::connect_tls(socket, host.trim_matches(['[', ']']), tls, relive_transport::Purpose::Bulk)
                .await?
        }
        None => Socket::over_tcp(socket)?,
    };
    let (reading, mut writing) = tokio::io::split(socket);
    let join = Join { shard: shared.options.shard, epoch: shared.options.epoch, token: access.token.clone() };
    write(&mut writing, &[join.to_bytes()]).await?;
    let mut messages = Messages::new(reading);
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    match Answer::from_bytes(messages.next(MAX_ANSWER_BYTES).await?).map_err(invalid)? {
        Answer::Accepted => Ok((messages, writing)),
        Answer::Refused(text) => Err(io::Error::new(io::ErrorKind::PermissionDenied, text)),
    }
}

/// Sends and receives until the stream is over.
///
/// # Errors
/// The connection has broken.
async fn connection(
    shared: &Outgoing,
    mut messages: Messages,
    mut socket: WriteHalf<Socket>,
) -> io::Result<()> {
    let receiving = async {
        loop {
            let message = messages.next(MAX_ANSWER_BYTES).await?;
            let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
            shared.receive(&ToShard::from_bytes(message).map_err(invalid)?);
        }
    };
    let sending = async {
        loop {
            let pushed = shared.pushed.notified();
            let (message, wake_at) = {
                let mut state = shared.lock();
                if state.is_over() {
                    return Ok(());
                }
                (state.transmit(shared.now()), state.sending.wake_at())
            };
            match message {
                Some(message) => write(&mut socket, &message.to_parts()).await?,
                None => {
                    let wait = wake_at.saturating_sub(shared.now());
                    // Woken when items are pushed, when messages are received, and at the time of the next question.
                    let _ = tokio::time::timeout(wait, pushed).await;
                }
            }
        }
    };
    tokio::select! {
        received = receiving => received,
        sent = sending => sent,
    }
}
