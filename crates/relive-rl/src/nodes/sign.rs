//! A node's message to the driver of the run: a sign of life with its state and its capacity.

use std::time::Duration;

use relive_client::blocking::{Client, Sampler};
use relive_client::{ErrorKind, Nest, SamplerOptions, Tensor};
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use crate::watching::printable;
use crate::{Result, RlError};

/// The table of signs of life.
pub(super) const TABLE: &str = "signs";

/// The version of signs and of the list. Nodes and drivers with different versions do not work together.
pub(super) const PROTOCOL: u32 = 1;

/// The maximum number of unread signs; the oldest are dropped, as newer ones supersede them.
const MAX_SIGNS: u64 = 10_000;

/// The server's timeout for a sign.
const ANSWER: Duration = Duration::from_secs(2);

/// Signs in transit to the driver.
const IN_FLIGHT: usize = 16;

const WHAT: &str = "a node's sign of life";

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeSign {
    /// Identifies the node, even among earlier nodes of the same name.
    pub(super) id: u64,
    /// For people.
    pub(super) name: String,
    pub(super) host: String,
    /// Where others get weights; `None` if it passes none on to other nodes.
    pub(super) address: Option<String>,
    /// The number of workers that it has room for.
    pub(super) wants: u32,
    /// The numbers of its workers. A new driver learns them this way.
    pub(super) holds: Vec<u32>,
    /// The number of running workers.
    pub(super) workers: u32,
    /// How often it has restarted a worker that had ended.
    pub(super) restarts: u64,
    /// The version of its weights.
    pub(super) version: Option<u64>,
    /// Whether it is leaving and returns its numbers.
    pub(super) leaves: bool,
}

#[derive(Serialize, Deserialize)]
struct SentSign {
    protocol: u32,
    sign: serde_json::Value,
}

/// A table that never blocks a node: without a reader, the oldest signs are dropped.
pub(super) fn table() -> TableConfig {
    TableConfig::queue(TABLE, 1).max_size(MAX_SIGNS).rate_limiter(relive_table::RateLimiterConfig {
        max_diff: f64::MAX,
        ..relive_table::RateLimiterConfig::queue(1)
    })
}

impl NodeSign {
    /// Sends the sign.
    ///
    /// # Errors
    /// The server is lost, or has no such table.
    pub(super) fn send(&self, client: &Client) -> Result<()> {
        let sign = serde_json::to_value(self).map_err(|error| RlError::state(WHAT, error))?;
        let bytes = serde_json::to_vec(&SentSign { protocol: PROTOCOL, sign });
        let bytes = bytes.map_err(|error| RlError::state(WHAT, error))?;
        let text = Tensor::from_strings([bytes], []).map_err(|error| RlError::state(WHAT, error))?;
        let step = Nest::dict([("sign", Nest::Leaf(text))]);
        Ok(client.with_timeout(ANSWER).insert(&step, &[(TABLE, 1.0)])?)
    }

    /// # Errors
    /// The sign comes from a node with another version of Relive; the bytes are no sign.
    fn from_bytes(bytes: &[u8]) -> Result<NodeSign> {
        let sent: SentSign = serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error))?;
        if sent.protocol != PROTOCOL {
            let reason = format_args!("it is of protocol {}, not {PROTOCOL}", sent.protocol);
            return Err(RlError::state(WHAT, reason));
        }
        let sign: NodeSign =
            serde_json::from_value(sent.sign).map_err(|error| RlError::state(WHAT, error))?;
        if sign.address.as_deref().is_some_and(|address| printable(address) != address) {
            return Err(RlError::state(WHAT, "its address has characters that none has"));
        }
        // They are shown in logs and on terminals.
        let [name, host] = [&sign.name, &sign.host].map(|text| printable(text).into_owned());
        Ok(NodeSign { name, host, ..sign })
    }
}

/// Reads each sign once.
pub(super) struct NodeSigns(Sampler);

impl NodeSigns {
    pub(super) fn new(client: &Client) -> Result<NodeSigns> {
        let options = SamplerOptions::default().num_workers(1).max_in_flight_samples_per_worker(IN_FLIGHT);
        Ok(NodeSigns(client.sampler(TABLE, options)?))
    }

    /// The next sign, if one has arrived. An unreadable sign is an error in its place.
    ///
    /// # Errors
    /// The server is lost.
    pub(super) fn next(&mut self) -> Result<Option<Result<NodeSign>>> {
        let sample = match self.0.next_with_timeout(Duration::ZERO) {
            None => return Ok(None),
            Some(Err(error)) if error.kind() == ErrorKind::Timeout => return Ok(None),
            Some(sample) => sample?,
        };
        let columns = sample.columns()?;
        let bytes = columns.first().and_then(Tensor::strings).and_then(<[_]>::first);
        Ok(Some(
            bytes
                .ok_or_else(|| RlError::state(WHAT, "it has no string"))
                .and_then(|bytes| NodeSign::from_bytes(bytes)),
        ))
    }
}

#[cfg(test)]
impl NodeSign {
    /// The sign of a node with room for this many workers.
    pub(super) fn of_test(id: u64, wants: u32) -> NodeSign {
        let address = Some(format!("10.0.0.{id}:7000"));
        let (name, host) = (format!("node-{id}"), "host".to_owned());
        NodeSign {
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
    fn signs_come_in_order_and_those_of_another_version_are_refused() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        let mut signs = NodeSigns::new(&client).unwrap();
        for id in [3, 1] {
            NodeSign::of_test(id, 2).send(&client).unwrap();
        }
        let mut next = || loop {
            if let Some(sign) = signs.next().unwrap() {
                break sign.unwrap();
            }
        };
        assert_eq!([next(), next()], [NodeSign::of_test(3, 2), NodeSign::of_test(1, 2)]);
        let other = br#"{"protocol":7,"sign":{"a":1}}"#;
        let error = NodeSign::from_bytes(other).unwrap_err().to_string();
        assert!(error.contains("protocol 7, not 1"), "{error}");
        assert!(NodeSign::from_bytes(b"{").is_err());
    }

    #[test]
    fn names_can_be_printed_and_addresses_that_cannot_are_refused() {
        let read = |sign: &NodeSign| {
            let sign = serde_json::to_value(sign).unwrap();
            NodeSign::from_bytes(&serde_json::to_vec(&SentSign { protocol: PROTOCOL, sign }).unwrap())
        };
        let obeyed = || "\u{1b}[2J".to_owned();
        let sign = NodeSign { name: obeyed(), host: obeyed(), ..NodeSign::of_test(1, 1) };
        let sign = read(&sign).unwrap();
        assert_eq!([sign.name, sign.host], ["\\u{1b}[2J", "\\u{1b}[2J"]);
        let sign = NodeSign { address: Some(obeyed()), ..NodeSign::of_test(1, 1) };
        assert!(read(&sign).unwrap_err().to_string().contains("address"));
    }
}
