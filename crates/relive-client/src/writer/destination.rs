//! Where a writer's streams go: to its server, or each to one of many.

use std::collections::HashMap;
use std::sync::Arc;

use tonic::Status;

use super::link::RemoteLink;
use super::stream::Way;
use crate::client::{Client, Connection, Remote, Stub};
use crate::many::{Many, Place};

/// What streams go to, one after the other.
pub(crate) enum Destination {
    One { client: Client, stub: Stub, way: Way },
    Many { many: Arc<Many>, ways: HashMap<u32, Way> },
}

/// What one stream goes to.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) stub: Option<Stub>,
    /// Of many servers, which.
    pub(super) place: Option<Arc<Place>>,
}

impl Destination {
    pub(super) fn one(client: &Client, remote: &Remote) -> Destination {
        Destination::One { client: client.clone(), stub: remote.stub(), way: Way::default() }
    }

    pub(super) fn many(many: Arc<Many>) -> Destination {
        Destination::Many { many, ways: HashMap::new() }
    }

    /// Where the next stream goes. Of many servers, waits until one is there, and says so.
    pub(super) async fn next(&mut self, link: &RemoteLink) -> Target {
        let many = match self {
            Destination::One { client, stub, .. } => {
                return Target { client: client.clone(), stub: Some(stub.clone()), place: None };
            }
            Destination::Many { many, .. } => many,
        };
        let place = loop {
            if let Some(place) = many.place() {
                break place;
            }
            link.stream_broke(&Status::unavailable(many.why_no_place()));
            many.wait_for_place().await;
        };
        let client = place.client().clone();
        let stub = match client.connection() {
            Connection::Remote(remote) => Some(remote.stub()),
            _ => None,
        };
        Target { client, stub, place: Some(Arc::new(place)) }
    }

    /// What is known of the way to `target`.
    pub(super) fn way(&mut self, target: &Target) -> &mut Way {
        match self {
            Destination::One { way, .. } => way,
            Destination::Many { ways, .. } => {
                ways.entry(target.place.as_ref().map_or(0, |place| place.number())).or_default()
            }
        }
    }
}

impl Target {
    /// Ready once the server is left out, and never if it is the only one.
    pub(super) async fn left_out(&self) {
        match &self.place {
            Some(place) => place.left_out().await,
            None => std::future::pending().await,
        }
    }

    /// How errors call an insert.
    pub(super) fn operation(&self) -> String {
        match &self.place {
            Some(place) => format!("insert at {}", place.address()),
            None => "insert".to_owned(),
        }
    }
}
