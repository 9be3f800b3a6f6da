//! The state that all RPCs share.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use relive_engine::{Engine, EngineError};
use relive_transport::{LocalAddress, LocalListener, host_id};
use relive_wire::reverb::Uint128;
use tokio::sync::watch;
use tonic::Status;

use super::status;
use crate::traffic::Traffic;

/// The engine and its counters. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    started: Instant,
    /// This number changes with every start, and when a table is added or dropped, which shows clients that they must
    /// request signatures again.
    tables_state_id: Uint128,
    stopping: watch::Receiver<bool>,
    /// The socket for processes on this machine.
    local: LocalSocket,
    connections: Arc<AtomicU64>,
    refused: AtomicU64,
    traffic: Arc<Traffic>,
    insert_streams: Arc<AtomicU64>,
    sample_streams: Arc<AtomicU64>,
}

/// Counts a connection or a stream for as long as it is open.
#[derive(Debug)]
pub(crate) struct StreamCount(Arc<AtomicU64>);

impl Services {
    pub(crate) fn new(
        engine: Engine,
        local: LocalSocket,
        stopping: watch::Receiver<bool>,
        max_bytes_in_flight: u64,
    ) -> Self {
        let shared = Shared {
            local,
            engine,
            started: Instant::now(),
            tables_state_id: Uint128 { high: random_u64(), low: random_u64() },
            stopping,
            connections: Arc::default(),
            refused: AtomicU64::new(0),
            traffic: Traffic::new(max_bytes_in_flight.max(1)),
            insert_streams: Arc::default(),
            sample_streams: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn local(&self) -> &LocalSocket {
        &self.shared.local
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn started(&self) -> Instant {
        self.shared.started
    }

    pub(crate) fn tables_state_id(&self) -> Uint128 {
        let Uint128 { high, low } = self.shared.tables_state_id;
        Uint128 { high, low: low.wrapping_add(self.shared.engine.tables_version()) }
    }

    pub(crate) fn stop(&self) -> Stop {
        Stop::new(self.shared.stopping.clone())
    }

    pub(crate) fn count_connection(&self) -> StreamCount {
        StreamCount::new(&self.shared.connections)
    }

    /// Returns the bytes in flight over all connections.
    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.shared.traffic
    }

    pub(crate) fn count_refusal(&self) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of connections that were refused because there were too many.
    pub(crate) fn refused_connections(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn count_insert_stream(&self) -> StreamCount {
        StreamCount::new(&self.shared.insert_streams)
    }

    pub(crate) fn count_sample_stream(&self) -> StreamCount {
        StreamCount::new(&self.shared.sample_streams)
    }

    /// Returns the numbers of open insert streams and sample streams.
    pub(crate) fn open_streams(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.shared.insert_streams), load(&self.shared.sample_streams))
    }
}

impl StreamCount {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The socket for processes on this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalSocket {
    /// Identifies the machine; empty if it is unknown.
    pub(crate) host_id: String,
    pub(crate) name: Option<LocalAddress>,
}

impl LocalSocket {
    /// Listens for processes on this machine, if the system supports it.
    pub(crate) fn listen() -> io::Result<(Self, LocalListener)> {
        let address = LocalAddress::new(format!("relive/{:016x}{:016x}", random_u64(), random_u64()));
        let listener = LocalListener::bind(address.clone())?;
        Ok((Self { host_id: host_id(), name: Some(address) }, listener))
    }
}

/// Resolves once the server is stopping.
pub(crate) struct Stop(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Stop {
    fn new(mut stopping: watch::Receiver<bool>) -> Self {
        // If the sender has been dropped, the server is gone.
        Self(Box::pin(async move { drop(stopping.wait_for(|stop| *stop).await) }))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stop")
    }
}

/// Runs slow work, such as freeing or scanning a million items, on a thread where it blocks no connection.
pub(crate) async fn run_blocking<R: Send + 'static>(
    act: impl FnOnce() -> Result<R, EngineError> + Send + 'static,
) -> Result<R, Status> {
    let done = tokio::task::spawn_blocking(act).await;
    let done = done.map_err(|error| Status::internal(format!("the call did not finish: {error}")))?;
    done.map_err(|error| status::of_engine(&error))
}

/// Returns a number that differs between starts. It does not have to be secret, because access is checked elsewhere.
fn random_u64() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
