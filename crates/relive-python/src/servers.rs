//! The servers of a client of many servers, for Python.

use std::time::SystemTime;

use relive_client::{Client, ServerChange, ServerState};

/// The fields of `relive.ServerState`.
pub(crate) type State = (String, &'static str, f64, String, usize, u64, u64);

/// The fields of `relive.ServerChange`.
pub(crate) type Change = (u64, f64, String, &'static str, String);

pub(crate) fn states(client: &Client) -> Vec<State> {
    let state = |state: ServerState| {
        let since = state.since.as_secs_f64();
        let (name, reason) = (state.standing.name(), state.reason);
        (state.address, name, since, reason, state.writers, state.times_left, state.lost_updates)
    };
    client.servers().into_iter().map(state).collect()
}

pub(crate) fn changes(client: &Client) -> Vec<Change> {
    let change = |change: ServerChange| {
        let at = change.at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        (change.number, at, change.address, change.event.name(), change.reason)
    };
    client.server_changes().into_iter().map(change).collect()
}
