//! The state of a server, as shown to operators from before the server has tables until after its last connection has
//! ended.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::services::Services;

/// The view of a server that an [`HttpServer`](super::HttpServer) shows. Cheap to clone.
///
/// It is created before the server, so that `/readyz` can report that tables are being loaded. [`serve`](crate::serve)
/// receives it in [`ServerOptions::monitor`](crate::ServerOptions::monitor) and keeps it up to date.
#[derive(Debug, Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: SystemTime,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    services: Option<Services>,
}

/// The phase of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Serving,
    Stopping,
}

impl Phase {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}

impl Monitor {
    /// Returns the view of a server that has not started yet.
    #[must_use]
    pub fn new() -> Self {
        let state = Mutex::new(State { phase: Phase::Starting, services: None });
        Self { shared: Arc::new(Shared { started: SystemTime::now(), state }) }
    }

    /// Records that the server is serving clients.
    pub(crate) fn begin(&self, services: Services) {
        *self.shared.state.lock() = State { phase: Phase::Serving, services: Some(services) };
    }

    /// Records that the server accepts no more calls.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().phase = Phase::Stopping;
    }

    /// Records that the server has ended. From then on, its observers no longer keep the tables alive.
    pub(crate) fn end(&self) {
        let services = self.shared.state.lock().services.take();
        drop(services);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.shared.state.lock().phase
    }

    pub(crate) fn services(&self) -> Option<Services> {
        self.shared.state.lock().services.clone()
    }

    pub(crate) fn started(&self) -> SystemTime {
        self.shared.started
    }
}
