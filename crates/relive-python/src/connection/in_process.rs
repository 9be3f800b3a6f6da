//! The servers in this process, for clients that can skip the network.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::interpreter::lock::Brief;
use relive_engine::Engine;

/// Identifies a server in this process: its port, or a number above all ports if it has none.
pub(crate) type Place = u32;

/// This process's information about a place.
pub(crate) enum LocalServer {
    /// A server in this process is running there.
    Serves(Engine),
    /// A server was there and has stopped.
    Stopped,
    /// No server of this process was ever there; another process may have one.
    Unknown,
}

/// The server at a place, and the process that registered it. After a fork, the server belongs to the parent process.
struct Entry {
    process: u32,
    /// `None` once the server has stopped.
    engine: Option<Engine>,
}

static SERVERS: Brief<Option<HashMap<Place, Entry>>> = Brief::new(None);

/// The place of the next server without a port.
static NEXT_PLACE: AtomicU32 = AtomicU32::new(1 << 16);

/// Returns a place that no server has had before.
pub(crate) fn new_place() -> Place {
    NEXT_PLACE.fetch_add(1, Ordering::Relaxed)
}

/// Returns the state of `place`.
pub(crate) fn at(place: Place) -> LocalServer {
    SERVERS.with(|servers| {
        let entry = servers.as_ref().and_then(|servers| servers.get(&place));
        match entry.filter(|entry| entry.process == std::process::id()) {
            Some(Entry { engine: Some(engine), .. }) => LocalServer::Serves(engine.clone()),
            Some(Entry { engine: None, .. }) => LocalServer::Stopped,
            None if place > u32::from(u16::MAX) => LocalServer::Stopped,
            None => LocalServer::Unknown,
        }
    })
}

/// Registers a server.
pub(crate) fn put(place: Place, engine: Engine) {
    let entry = Entry { process: std::process::id(), engine: Some(engine) };
    let before = SERVERS.with(|servers| servers.get_or_insert_default().insert(place, entry));
    drop(before);
}

/// Records that the server of `engine` has stopped, unless another server has taken its place. The entry of a port
/// remains; a server without a port has no entry once it has stopped.
pub(crate) fn stop(place: Place, engine: &Engine) {
    let gone = SERVERS.with(|servers| {
        let servers = servers.as_mut()?;
        let entry = servers.get_mut(&place).filter(|entry| entry.process == std::process::id())?;
        let gone = entry.engine.take_if(|mine| is_same(mine, engine))?;
        if place > u32::from(u16::MAX) {
            servers.remove(&place);
        }
        Some(gone)
    });
    // This may drop the tables, which can take a long time.
    drop(gone);
}

/// Returns whether both are handles to the same engine.
pub(crate) fn is_same(one: &Engine, other: &Engine) -> bool {
    std::sync::Arc::ptr_eq(one.ledger(), other.ledger())
}
