//! The destination of a writer's streams: a single server, or one of many servers for each stream.

use std::collections::HashMap;
use std::sync::Arc;

use relive_connection::{Connection, Dialer, Result, ReverbStub, SilentConnections};
use relive_fleet::{Assignment, Backend, Fleet};
use tonic::Status;

use super::remote::RemoteLink;

/// The destination of a writer's successive streams.
pub(super) enum Destination {
    /// One server, and the backend that stores the writers' proposals.
    One {
        backend: Backend,
        connection: Connection,
        silent: SilentConnections,
    },
    Many {
        fleet: Arc<Fleet>,
        silent: HashMap<u32, SilentConnections>,
    },
}

/// The target of one stream.
pub(super) struct StreamTarget {
    pub(super) connection: Connection,
    pub(super) stub: ReverbStub,
    /// The assignment to one of many servers.
    pub(super) assignment: Option<Arc<Assignment>>,
}

impl Destination {
    pub(super) fn one(backend: &Backend, connection: &Connection) -> Destination {
        let (backend, connection) = (backend.clone(), connection.clone());
        Destination::One { backend, connection, silent: SilentConnections::default() }
    }

    pub(super) fn many(fleet: Arc<Fleet>) -> Destination {
        Destination::Many { fleet, silent: HashMap::new() }
    }

    /// Returns the backend, if the destination is a single server.
    pub(super) fn backend(&self) -> Option<&Backend> {
        match self {
            Destination::One { backend, .. } => Some(backend),
            Destination::Many { .. } => None,
        }
    }

    /// Returns the target of the next stream. With many servers, waits until one is available, and reports the wait.
    pub(super) async fn next(&mut self, link: &RemoteLink) -> StreamTarget {
        let fleet = match self {
            Destination::One { connection, .. } => return StreamTarget::new(connection.clone(), None),
            Destination::Many { fleet, .. } => fleet,
        };
        let assignment = loop {
            if let Some(assignment) = fleet.assign() {
                break assignment;
            }
            link.stream_broke(&Status::unavailable(fleet.no_server_reason()));
            fleet.wait_for_member().await;
        };
        StreamTarget::new(assignment.connection().clone(), Some(Arc::new(assignment)))
    }

    /// Returns the state of the bulk path to `target`'s server.
    pub(super) fn silent_connections(&mut self, target: &StreamTarget) -> &mut SilentConnections {
        match self {
            Destination::One { silent, .. } => silent,
            Destination::Many { silent, .. } => {
                let number = target.assignment.as_ref().map_or(0, |assignment| assignment.number());
                silent.entry(number).or_default()
            }
        }
    }
}

impl StreamTarget {
    fn new(connection: Connection, assignment: Option<Arc<Assignment>>) -> StreamTarget {
        StreamTarget { stub: connection.stub(), connection, assignment }
    }

    /// Completes when the server is excluded from the fleet; never completes if it is the only server.
    pub(super) async fn until_away(&self) {
        match &self.assignment {
            Some(assignment) => assignment.until_away().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the name that errors use for an insert.
    pub(super) fn operation(&self) -> String {
        match &self.assignment {
            Some(assignment) => format!("insert at {}", assignment.address()),
            None => "insert".to_owned(),
        }
    }
}

/// Returns the bulk path to a server, if the server is known to have one and has not been `silent` there. Until then,
/// items are sent over gRPC, which can wait for a server.
pub(super) async fn bulk_path(connection: &Connection, silent: &SilentConnections) -> Result<Option<Dialer>> {
    if silent.are_too_many() {
        return Ok(None);
    }
    match connection.dialer().await {
        Err(error) if error.is_refusal() => Err(error),
        Err(_) => Ok(None),
        found => found,
    }
}
