//! What clients are told about the ways for bulk data.

use std::hash::{BuildHasher, RandomState};
use std::io;

use relive_transport::{LocalAddress, LocalListener, host_id};
use relive_wire::bulk::VERSION;
use relive_wire::v1::{NegotiateRequest, NegotiateResponse};

use crate::grpc::Services;

/// Where processes of this machine find this server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Local {
    /// Tells the machine; empty if it cannot be told.
    host_id: String,
    name: Option<LocalAddress>,
}

impl Local {
    /// Listens for processes of this machine, if the system knows how.
    pub(crate) fn listen() -> io::Result<(Self, LocalListener)> {
        let address = LocalAddress::new(format!("relive/{:016x}{:016x}", random(), random()));
        let listener = LocalListener::bind(address.clone())?;
        Ok((Self { host_id: host_id(), name: Some(address) }, listener))
    }
}

/// Another name for every server; who may connect is checked otherwise.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Answers a client that wants to know.
pub(crate) fn negotiate(services: &Services, _: NegotiateRequest) -> NegotiateResponse {
    let Local { host_id, name } = services.local().clone();
    let local_name = name.map_or_else(String::new, |address| address.name().to_owned());
    NegotiateResponse { bulk_version: VERSION, host_id, local_name }
}
