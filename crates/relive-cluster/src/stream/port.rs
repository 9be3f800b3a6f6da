//! The port on which the readers of a process listen.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_transport::Socket;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::access::PortAccess;
use super::connection::{Messages, write};
use super::error::StreamError;
use super::message::{FromShard, ToShard};
use super::reader::{ShardReader, ShardStatus, Slot};
use super::receiving::Window;
use super::wire::{Answer, Join, MAX_JOIN_BYTES, MAX_MESSAGE_BYTES};

/// How long a writer may take to identify itself, and how long it may then wait for a reader of its shard.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait at the end until writers have received the notice that the port has closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Listens for the writers of shards.
///
/// When the port is dropped, it notifies the writers that it has closed.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    shared: Arc<Listening>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Listening {
    access: PortAccess,
    slots: Mutex<HashMap<u32, Arc<Slot>>>,
    changed: Notify,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Port {
    /// Listens on `address`; port 0 selects a free port.
    ///
    /// # Errors
    /// It is not possible to listen on the address.
    pub fn bind(address: SocketAddr, access: PortAccess) -> Result<Port, StreamError> {
        let broken = |error: io::Error| StreamError::Address {
            address: address.to_string(),
            reason: error.to_string(),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("relive-streams")
            .enable_all()
            .build()
            .map_err(broken)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let shared = Arc::new(Listening {
            access,
            slots: Mutex::default(),
            changed: Notify::new(),
            connections: Mutex::default(),
        });
        runtime.spawn(accept(Arc::clone(&shared), listener));
        Ok(Port { address, shared, runtime: Some(runtime) })
    }

    /// Returns the address at which the port listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates the reader of a shard. The shard's writer may connect before or afterwards.
    ///
    /// # Errors
    /// The shard already has a reader.
    pub fn reader(&self, shard: u32, window: Window) -> Result<ShardReader, StreamError> {
        let mut slots = self.shared.slots.lock();
        if slots.get(&shard).is_some_and(|slot| !slot.is_closed()) {
            return Err(StreamError::Taken { shard });
        }
        let slot = Arc::new(Slot::new(window));
        slots.insert(shard, Arc::clone(&slot));
        self.shared.changed.notify_waiters();
        Ok(ShardReader::new(slot))
    }

    /// Returns the statistics of all shards that have had readers at this port, by number.
    #[must_use]
    pub fn status(&self) -> Vec<(u32, ShardStatus)> {
        let slots = self.shared.slots.lock();
        let mut shards: Vec<_> = slots.iter().map(|(shard, slot)| (*shard, slot.status())).collect();
        shards.sort_by_key(|(shard, _)| *shard);
        shards
    }

    /// Marks a shard as failed, for a supervisor that has determined that the shard will not return. After the items
    /// that have been received, the shard's reader returns this error and ends.
    pub fn fail(&self, shard: u32, reason: &str) {
        if let Some(slot) = self.shared.slots.lock().get(&shard) {
            slot.fail(reason);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.slots.lock().values().for_each(|slot| slot.close());
        let connections = std::mem::take(&mut *self.shared.connections.lock());
        if let Some(runtime) = self.runtime.take() {
            let closing = async {
                for connection in connections {
                    // The writer itself notices that a failed connection is gone.
                    let _ = connection.await;
                }
            };
            let _ = runtime.block_on(async { tokio::time::timeout(CLOSE_TIMEOUT * 2, closing).await });
            runtime.shutdown_background();
        }
    }
}

async fn accept(shared: Arc<Listening>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let serving = tokio::spawn(serve(Arc::clone(&shared), socket, peer));
                let mut connections = shared.connections.lock();
                connections.retain(|connection| !connection.is_finished());
                connections.push(serving);
            }
            Err(error) => {
                tracing::warn!("cannot accept the writer of a stream: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(shared: Arc<Listening>, socket: TcpStream, peer: SocketAddr) {
    match tokio::time::timeout(JOIN_TIMEOUT, joined(&shared, socket)).await {
        Ok(Ok((slot, epoch, messages, socket))) => {
            if let Err(error) = slot_connection(&slot, epoch, messages, socket).await {
                tracing::debug!("the stream of a shard at {peer} broke: {error}");
            }
        }
        Ok(Err(error)) => tracing::warn!("{peer} is not the writer of a stream: {error}"),
        Err(_) => tracing::warn!("{peer} did not say within {JOIN_TIMEOUT:?} which shard it writes"),
    }
}

type AcceptedShard = (Arc<Slot>, u64, Messages, WriteHalf<Socket>);

/// Identifies the shard of a connection, and finds its reader.
async fn joined(shared: &Listening, socket: TcpStream) -> io::Result<AcceptedShard> {
    let socket = match &shared.access.tls {
        Some(tls) => Socket::accept_tls(socket, tls).await?,
        None => Socket::over_tcp(socket)?,
    };
    let (reading, mut writing) = tokio::io::split(socket);
    let mut messages = Messages::new(reading);
    let join = Join::from_bytes(messages.next(MAX_JOIN_BYTES).await?);
    let refusal = match &join {
        Err(text) => Some(text.clone()),
        Ok(join) if !shared.access.admits(&join.token) => Some("the token is not this job's".to_owned()),
        Ok(_) => None,
    };
    let (Ok(join), None) = (join, &refusal) else {
        let text = refusal.unwrap_or_default();
        write(&mut writing, &[Answer::Refused(text.clone()).to_bytes()]).await?;
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    };
    let slot = shared.slot(join.shard).await;
    write(&mut writing, &[Answer::Accepted.to_bytes()]).await?;
    Ok((slot, join.epoch, messages, writing))
}

impl Listening {
    /// Waits for the reader of a shard.
    async fn slot(&self, shard: u32) -> Arc<Slot> {
        loop {
            let changed = self.changed.notified();
            if let Some(slot) = self.slots.lock().get(&shard) {
                return Arc::clone(slot);
            }
            changed.await;
        }
    }
}

/// Serves a writer until the connection breaks or is replaced.
async fn slot_connection(
    slot: &Slot,
    epoch: u64,
    messages: Messages,
    mut socket: WriteHalf<Socket>,
) -> io::Result<()> {
    let Some(number) = slot.connected(epoch) else {
        write(&mut socket, &[ToShard::Replaced { by: slot.epoch() }.to_bytes()]).await?;
        return leave(messages, socket).await;
    };
    let ended = exchange(slot, number, messages, socket).await;
    slot.disconnected(number);
    ended
}

/// Sends and receives over the connection with the given number.
async fn exchange(
    slot: &Slot,
    number: u64,
    mut messages: Messages,
    mut socket: WriteHalf<Socket>,
) -> io::Result<()> {
    loop {
        let changed = slot.changed.notified();
        while let Some(message) = slot.transmit(number) {
            write(&mut socket, &[message.to_bytes()]).await?;
            if message == ToShard::Closed {
                return leave(messages, socket).await;
            }
        }
        if !slot.is_of(number) {
            // The notification may have been meant for the connection that replaces this one.
            slot.changed.notify_one();
            return Ok(());
        }
        tokio::select! {
            message = messages.next(MAX_MESSAGE_BYTES) => match message.map(FromShard::from_bytes) {
                Ok(Ok(message)) => slot.receive(number, message),
                Ok(Err(text)) => return Err(io::Error::new(io::ErrorKind::InvalidData, text)),
                Err(error) => return Err(error),
            },
            () = changed => {}
        }
    }
}

/// Waits until the writer has received the last message and disconnected, because closing a connection with unread
/// input would discard sent data.
async fn leave(mut messages: Messages, mut socket: WriteHalf<Socket>) -> io::Result<()> {
    socket.shutdown().await?;
    let left = async { while messages.next(MAX_MESSAGE_BYTES).await.is_ok() {} };
    // A writer that does not disconnect is ignored.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, left).await;
    Ok(())
}
