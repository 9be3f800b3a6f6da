//! A node's message to the driver of the run: a heartbeat with its state and its capacity.

use std::time::Duration;

use relive_client::blocking::{Client, Sampler};
use relive_client::{Nest, SamplerOptions};
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use crate::tables::item;
use crate::watching::printable;
use crate::{Result, RlError};

/// The table of heartbeats.
pub(super) const TABLE: &str = "signs";

/// The version of heartbeats and of the list. Nodes and drivers with different versions do not work together.
pub(super) const PROTOCOL: u32 = 1;

/// The maximum number of unread heartbeats; the oldest are dropped, as newer ones supersede them.
const MAX_HEARTBEATS: u64 = 10_000;

/// How long the server may take to respond when a heartbeat is sent.
const ANSWER: Duration = Duration::from_secs(2);

/// The number of heartbeats in transit to the driver.
const IN_FLIGHT: usize = 16;

const WHAT: &str = "a node's heartbeat";

/// A heartbeat of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeHeartbeat {
    /// Identifies the node, even among earlier nodes with the same name.
    pub(super) id: u64,
    /// The node's name, for people.
    pub(super) name: String,
    pub(super) host: String,
    /// The address from which other nodes fetch weights; `None` if this node does not pass weights on.
    pub(super) address: Option<String>,
    /// The number of workers for which the node has room.
    pub(super) wants: u32,
    /// The numbers of its workers, which a new driver needs.
    pub(super) holds: Vec<u32>,
    /// The number of running workers.
    pub(super) workers: u32,
    /// How many times the node has restarted a worker that had ended.
    pub(super) restarts: u64,
    /// The version of its weights.
    pub(super) version: Option<u64>,
    /// Whether the node is leaving and returns its numbers.
    pub(super) leaves: bool,
}

#[derive(Serialize, Deserialize)]
struct SentHeartbeat {
    protocol: u32,
    #[serde(rename = "sign")]
    heartbeat: serde_json::Value,
}

/// Returns a table that never blocks a node: without a reader, the oldest heartbeats are dropped.
pub(super) fn table() -> TableConfig {
    TableConfig::queue(TABLE, 1).max_size(MAX_HEARTBEATS).rate_limiter(relive_table::RateLimiterConfig {
        max_diff: f64::MAX,
        ..relive_table::RateLimiterConfig::queue(1)
    })
}

impl NodeHeartbeat {
    /// Sends the heartbeat.
    ///
    /// # Errors
    /// The server is lost, or has no such table.
    pub(super) fn send(&self, client: &Client) -> Result<()> {
        let heartbeat = serde_json::to_value(self).map_err(|error| RlError::state(WHAT, error))?;
        let bytes = serde_json::to_vec(&SentHeartbeat { protocol: PROTOCOL, heartbeat });
        let bytes = bytes.map_err(|error| RlError::state(WHAT, error))?;
        let step = Nest::dict([("sign", item::text_leaf(bytes, WHAT)?)]);
        Ok(client.with_timeout(ANSWER).insert(&step, &[(TABLE, 1.0)])?)
    }

    /// # Errors
    /// The heartbeat comes from a node with a different version of Relive, or the bytes are not a heartbeat.
    fn from_bytes(bytes: &[u8]) -> Result<NodeHeartbeat> {
        let sent: SentHeartbeat =
            serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error))?;
        if sent.protocol != PROTOCOL {
            let reason = format_args!("it has protocol version {}, not {PROTOCOL}", sent.protocol);
            return Err(RlError::state(WHAT, reason));
        }
        let heartbeat: NodeHeartbeat =
            serde_json::from_value(sent.heartbeat).map_err(|error| RlError::state(WHAT, error))?;
        if heartbeat.address.as_deref().is_some_and(|address| printable(address) != address) {
            return Err(RlError::state(WHAT, "its address has invalid characters"));
        }
        // Both names are shown in logs and on terminals.
        let [name, host] = [&heartbeat.name, &heartbeat.host].map(|text| printable(text).into_owned());
        Ok(NodeHeartbeat { name, host, ..heartbeat })
    }
}

/// Reads each heartbeat once.
pub(super) struct NodeHeartbeats(Sampler);

impl NodeHeartbeats {
    pub(super) fn new(client: &Client) -> Result<NodeHeartbeats> {
        let options = SamplerOptions::default().num_workers(1).max_in_flight_samples_per_worker(IN_FLIGHT);
        Ok(NodeHeartbeats(client.sampler(TABLE, options)?))
    }

    /// Returns the next heartbeat, if one has arrived; the inner result is an error if the heartbeat is unreadable.
    ///
    /// # Errors
    /// The server is lost.
    pub(super) fn next(&mut self) -> Result<Option<Result<NodeHeartbeat>>> {
        let Some(columns) = item::next(&mut self.0, Duration::ZERO)? else { return Ok(None) };
        Ok(Some(item::text(&columns, WHAT).and_then(NodeHeartbeat::from_bytes)))
    }
}

#[cfg(test)]
impl NodeHeartbeat {
    /// Returns the heartbeat of a node with room for the given number of workers.
    pub(super) fn of_test(id: u64, wants: u32) -> NodeHeartbeat {
        let address = Some(format!("10.0.0.{id}:7000"));
        let (name, host) = (format!("node-{id}"), "host".to_owned());
        NodeHeartbeat {
            id,
            name,
            host,
            address,
            wants,
            holds: Vec::new(),
            workers: 0,
            restarts: 0,
            version: None,
            leaves: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn heartbeats_arrive_in_order_and_other_versions_are_refused() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        let mut heartbeats = NodeHeartbeats::new(&client).unwrap();
        for id in [3, 1] {
            NodeHeartbeat::of_test(id, 2).send(&client).unwrap();
        }
        let mut next = || loop {
            if let Some(heartbeat) = heartbeats.next().unwrap() {
                break heartbeat.unwrap();
            }
        };
        assert_eq!([next(), next()], [NodeHeartbeat::of_test(3, 2), NodeHeartbeat::of_test(1, 2)]);
        let other = br#"{"protocol":7,"sign":{"a":1}}"#;
        let error = NodeHeartbeat::from_bytes(other).unwrap_err().to_string();
        assert!(error.contains("protocol version 7, not 1"), "{error}");
        assert!(NodeHeartbeat::from_bytes(b"{").is_err());
    }

    #[test]
    fn names_are_made_printable_and_unprintable_addresses_are_refused() {
        let read = |heartbeat: &NodeHeartbeat| {
            let heartbeat = serde_json::to_value(heartbeat).unwrap();
            NodeHeartbeat::from_bytes(
                &serde_json::to_vec(&SentHeartbeat { protocol: PROTOCOL, heartbeat }).unwrap(),
            )
        };
        let obeyed = || "\u{1b}[2J".to_owned();
        let heartbeat = NodeHeartbeat { name: obeyed(), host: obeyed(), ..NodeHeartbeat::of_test(1, 1) };
        let heartbeat = read(&heartbeat).unwrap();
        assert_eq!([heartbeat.name, heartbeat.host], ["\\u{1b}[2J", "\\u{1b}[2J"]);
        let heartbeat = NodeHeartbeat { address: Some(obeyed()), ..NodeHeartbeat::of_test(1, 1) };
        assert!(read(&heartbeat).unwrap_err().to_string().contains("address"));
    }
}
