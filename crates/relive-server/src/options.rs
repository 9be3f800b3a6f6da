//! The options for a server.

use std::time::Duration;

use crate::limits::{MAX_BYTES_IN_FLIGHT, MAX_CONNECTIONS};
use crate::monitor::Monitor;

/// The options for a server. [`Default`] is suitable for most servers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The number of threads that serve connections, at least 1; by default, one per core.
    pub workers: usize,
    /// How long open connections may take to end after the server has begun to stop.
    pub drain_timeout: Duration,
    /// The maximum number of open connections; further connections are refused.
    pub max_connections: usize,
    /// The maximum number of bytes in flight between clients and tables, over all connections; at least 1. Further
    /// requests and samples wait. The server closes a connection if its client does not transfer its bytes while others
    /// are waiting for room.
    pub max_bytes_in_flight: u64,
    /// Receives the state of the server for monitoring; see [`HttpServer`](crate::HttpServer).
    pub monitor: Option<Monitor>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers,
            drain_timeout: Duration::from_secs(5),
            max_connections: MAX_CONNECTIONS,
            max_bytes_in_flight: MAX_BYTES_IN_FLIGHT,
            monitor: None,
        }
    }
}

impl ServerOptions {
    /// Sets [`Self::drain_timeout`].
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Sets [`Self::max_connections`].
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets [`Self::max_bytes_in_flight`].
    #[must_use]
    pub fn max_bytes_in_flight(mut self, bytes: u64) -> Self {
        self.max_bytes_in_flight = bytes;
        self
    }

    /// Sets [`Self::monitor`].
    #[must_use]
    pub fn monitor(mut self, monitor: Monitor) -> Self {
        self.monitor = Some(monitor);
        self
    }

    /// Sets [`Self::workers`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }
}
