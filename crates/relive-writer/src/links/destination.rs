//! Where a writer's streams go: to its server, or each to one of many.

use std::collections::HashMap;
use std::sync::Arc;

use relive_connection::{Connection, Dialer, MAX_SILENT_CONNECTIONS, Result, Stub};
use relive_fleet::{Assignment, Backend, Fleet};
use tonic::Status;

use super::remote::RemoteLink;

/// What streams go to, one after the other.
pub(super) enum Destination {
    /// One server. With the backend, which knows what the writers have proposed.
    One {
        backend: Backend,
        connection: Connection,
        stub: Stub,
        silent: SilentConnections,
    },
    Many {
        fleet: Arc<Fleet>,
        silent: HashMap<u32, SilentConnections>,
    },
}

/// What one stream goes to.
pub(super) struct StreamTarget {
    pub(super) connection: Connection,
    pub(super) stub: Stub,
    /// Of many servers, which.
    pub(super) assignment: Option<Arc<Assignment>>,
}

impl Destination {
    pub(super) fn one(backend: &Backend, connection: &Connection) -> Destination {
        let (backend, connection, stub) = (backend.clone(), connection.clone(), connection.stub());
        Destination::One { backend, connection, stub, silent: SilentConnections::default() }
    }

    pub(super) fn many(fleet: Arc<Fleet>) -> Destination {
        Destination::Many { fleet, silent: HashMap::new() }
    }

    /// The backend, if it is one server.
    pub(super) fn backend(&self) -> Option<&Backend> {
        match self {
            Destination::One { backend, .. } => Some(backend),
            Destination::Many { .. } => None,
        }
    }

    /// Where the next stream goes. Of many servers, waits until one is there, and says so.
    pub(super) async fn next(&mut self, link: &RemoteLink) -> StreamTarget {
        let fleet = match self {
            Destination::One { connection, stub, .. } => {
                return StreamTarget { connection: connection.clone(), stub: stub.clone(), assignment: None };
            }
            Destination::Many { fleet, .. } => fleet,
        };
        let assignment = loop {
            if let Some(assignment) = fleet.assign() {
                break assignment;
            }
            link.stream_broke(&Status::unavailable(fleet.why_nobody()));
            fleet.wait_for_member().await;
        };
        let connection = assignment.connection().clone();
        StreamTarget { stub: connection.stub(), connection, assignment: Some(Arc::new(assignment)) }
    }

    /// What is known of the bulk path to `target`.
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
    /// Ready once the server is left out, and never if it is the only one.
    pub(super) async fn left_out(&self) {
        match &self.assignment {
            Some(assignment) => assignment.left_out().await,
            None => std::future::pending().await,
        }
    }

    /// How errors call an insert.
    pub(super) fn operation(&self) -> String {
        match &self.assignment {
            Some(assignment) => format!("insert at {}", assignment.address()),
            None => "insert".to_owned(),
        }
    }
}

/// What is known of the bulk path to a server.
#[derive(Debug, Default)]
pub(super) struct SilentConnections {
    /// Connections in a row that were taken and ended without an answer.
    in_a_row: usize,
}

impl SilentConnections {
    /// The bulk path, if there is one. As long as it is not known, items go by gRPC, which knows how to wait for a
    /// server.
    pub(super) async fn dialer(&self, connection: &Connection) -> Result<Option<Dialer>> {
        if self.in_a_row >= MAX_SILENT_CONNECTIONS {
            return Ok(None);
        }
        match connection.dialer().await {
            Err(error) if error.is_refusal() => Err(error),
            Err(_) => Ok(None),
            found => found,
        }
    }

    pub(super) fn note(&mut self, has_answered: bool) {
        self.in_a_row = if has_answered { 0 } else { self.in_a_row + 1 };
    }
}
