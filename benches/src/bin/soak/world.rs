//! The state that all roles share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use relive_client::{Client, ClientOptions, ErrorKind, TransportChoice};

use crate::arguments::Arguments;
use crate::model::Model;
use crate::namespace::Namespace;
use crate::proxy::Proxy;
use crate::server::Server;
use relive_benches::Outcome;

pub(crate) const TABLE: &str = "soak";

/// Longer than a server takes to restart.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any call takes.
const MAX_MICROS: u64 = 600_000_000;

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) server: Server,
    /// A proxy that cuts connections.
    pub(crate) rough: Proxy,
    /// A proxy that reads slowly.
    pub(crate) slow: Proxy,
    pub(crate) inserts: Latency,
    pub(crate) samples: Latency,
    pub(crate) counts: Counts,
    /// The server's memory use since the last kill: time and bytes.
    pub(crate) memory: Mutex<Vec<(Instant, u64)>>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) kills: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) troubles: AtomicU64,
    pub(crate) garbage: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) streamed: AtomicU64,
    /// The number of failed calls, which may fail while the server is down or a connection is cut.
    pub(crate) failed: AtomicU64,
}

/// Durations of calls during which there was neither a kill nor a cut.
pub(crate) struct Latency(Mutex<Histogram<u64>>);

impl Latency {
    fn new() -> Outcome<Latency> {
        Ok(Latency(Mutex::new(Histogram::new_with_max(MAX_MICROS, 3)?)))
    }

    pub(crate) fn record(&self, since: Instant) {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros.min(MAX_MICROS));
    }

    /// Returns the median, the 99th percentile and the maximum, in milliseconds.
    pub(crate) fn milliseconds(&self) -> [f64; 3] {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = [histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99), histogram.max()];
        micros.map(|micros| Duration::from_micros(micros).as_secs_f64() * 1e3)
    }
}

impl World {
    pub(crate) async fn create(arguments: &Arguments) -> Outcome<World> {
        let namespace = arguments.namespace.then(Namespace::make).transpose()?;
        let server = Server::start(&arguments.server, &arguments.folder, namespace).await?;
        Ok(World {
            model: Model::default(),
            rough: Proxy::start(server.address.clone(), false).await?,
            slow: Proxy::start(server.address.clone(), true).await?,
            server,
            inserts: Latency::new()?,
            samples: Latency::new()?,
            counts: Counts::default(),
            memory: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.server.address
    }

    /// Returns a client over the given transport; for a server in another namespace, only one transport is possible.
    pub(crate) fn client(&self, way: TransportChoice) -> Outcome<Client> {
        let way = if self.server.namespace.is_some() { TransportChoice::Tcp } else { way };
        connect(self.address(), way)
    }

    /// Returns a client whose connections are cut from time to time.
    pub(crate) fn rough_client(&self) -> Outcome<Client> {
        connect(&self.rough.address, TransportChoice::Tcp)
    }

    pub(crate) fn slow_client(&self) -> Outcome<Client> {
        connect(&self.slow.address, TransportChoice::Tcp)
    }

    /// Counts a failed call if the server was down or a connection was cut. Any other failure is a fault.
    pub(crate) fn failed(&self, error: &(dyn std::error::Error + 'static)) {
        let kind = error.downcast_ref::<relive_client::Error>().map(relive_client::Error::kind);
        match kind {
            Some(ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Cancelled) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.model.fault(format!("a call has failed: {error}")),
        }
    }
}

fn connect(address: &str, way: TransportChoice) -> Outcome<Client> {
    Ok(Client::connect_with(address, ClientOptions::default().timeout(PATIENCE).transport(way))?)
}
