//! What all RPCs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use relive_engine::Engine;
use relive_wire::reverb::Uint128;
use tokio::sync::watch;

use super::router::PeerService;
use super::stop::Stop;
use crate::access::Access;
use crate::bulk::Local;
use crate::traffic::{Line, Traffic};

/// The engine and what is counted around it; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    started: Instant,
    /// Changes with every start, and with every table that comes or goes, so that clients know when to ask for signatures again.
    tables_state_id: Uint128,
    stopping: watch::Receiver<bool>,
    /// Where processes of this machine find the server.
    local: Local,
    connections: Arc<AtomicU64>,
    refused: AtomicU64,
    traffic: Arc<Traffic>,
    insert_streams: Arc<AtomicU64>,
    sample_streams: Arc<AtomicU64>,
}

/// Counts a connection or a stream for as long as it lives.
#[derive(Debug)]
pub(crate) struct StreamCount(Arc<AtomicU64>);

impl Services {
    pub(crate) fn new(
        engine: Engine,
        local: Local,
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

    /// The services as one connection sees them.
    pub(crate) fn for_peer(&self, peer: &Arc<str>, access: Access, line: &Line) -> PeerService {
        PeerService::new(self.clone(), Arc::clone(peer), access, line.clone())
    }

    pub(crate) fn local(&self) -> &Local {
        &self.shared.local
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn started(&self) -> Instant {
        self.shared.started
    }

    pub(super) fn tables_state_id(&self) -> Uint128 {
        let Uint128 { high, low } = self.shared.tables_state_id;
        Uint128 { high, low: low.wrapping_add(self.shared.engine.tables_version()) }
    }

    pub(crate) fn stop(&self) -> Stop {
        Stop::new(self.shared.stopping.clone())
    }

    pub(crate) fn count_connection(&self) -> StreamCount {
        StreamCount::new(&self.shared.connections)
    }

    /// What is on its way over all connections.
    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.shared.traffic
    }

    pub(crate) fn count_refusal(&self) {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that there was no room for.
    pub(crate) fn refused_connections(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub(crate) fn open_connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn count_insert_stream(&self) -> StreamCount {
        StreamCount::new(&self.shared.insert_streams)
    }

    pub(crate) fn count_sample_stream(&self) -> StreamCount {
        StreamCount::new(&self.shared.sample_streams)
    }

    /// Insert streams and sample streams open now.
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

/// A number that differs from start to start; it guards no secret.
fn random_u64() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
