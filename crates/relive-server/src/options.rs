//! What an operator may choose.

use std::time::Duration;

/// How a server behaves; [`Default`] is right for most.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Time that open connections get to end after the server was told to stop.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { drain_timeout: Duration::from_secs(5) }
    }
}

impl ServerOptions {
    /// Sets [`Self::drain_timeout`].
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }
}
