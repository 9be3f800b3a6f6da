//! The driver's message to all nodes: which nodes exist, the numbers of their workers, and the source of each node's
//! weights.

use std::time::Duration;

use relive_client::Nest;
use relive_client::blocking::Client;
use relive_table::TableConfig;
use serde::{Deserialize, Serialize};

use super::heartbeat::PROTOCOL;
use crate::tables::item::{self, ShouldContinue};
use crate::watching::printable;
use crate::{Result, RlError};

/// The table with the newest list as its only item.
pub(super) const TABLE: &str = "nodes";

/// The timeout for reading an item that may not exist.
const TIMEOUT: Duration = Duration::from_millis(200);

const WHAT: &str = "the list of nodes";

/// The nodes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeList {
    /// How many numbers are available to workers of nodes; `None` means that there is no limit.
    pub(super) most: Option<u32>,
    pub(super) nodes: Vec<Assignment>,
}

/// The driver's assignment for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) id: u64,
    /// The numbers of its workers.
    pub(super) places: Vec<u32>,
    pub(super) source: Source,
}

/// The source of a node's weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// The address of the node that provides the weights; `None` means the run's server.
    pub(super) address: Option<String>,
    /// The node's box at the source; `None` if the node has none.
    pub(super) reader: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct WrittenList {
    protocol: u32,
    /// The version of Relive, for messages.
    relive: String,
    list: serde_json::Value,
}

pub(super) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

impl NodeList {
    pub(super) fn put(&self, client: &Client, should_continue: ShouldContinue<'_>) -> Result<()> {
        let list = serde_json::to_value(self).map_err(|error| RlError::state(WHAT, error))?;
        let written = WrittenList { protocol: PROTOCOL, relive: env!("CARGO_PKG_VERSION").to_owned(), list };
        put_bytes(
            client,
            serde_json::to_vec(&written).map_err(|error| RlError::state(WHAT, error))?,
            should_continue,
        )
    }

    /// Returns the newest list, if one exists already.
    ///
    /// # Errors
    /// The server is lost, or the list comes from another version of Relive.
    pub(super) fn get(client: &Client) -> Result<Option<NodeList>> {
        let Some(columns) = item::newest_if_started(client, TABLE, TIMEOUT)? else { return Ok(None) };
        NodeList::from_bytes(item::text(&columns, WHAT)?).map(Some)
    }

    fn from_bytes(bytes: &[u8]) -> Result<NodeList> {
        let written: WrittenList =
            serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error))?;
        if written.protocol != PROTOCOL {
            return Err(RlError::OtherVersion {
                here: format!("{}, protocol {PROTOCOL}", env!("CARGO_PKG_VERSION")),
                there: format!("{}, protocol {}", written.relive, written.protocol),
            });
        }
        let list: NodeList =
            serde_json::from_value(written.list).map_err(|error| RlError::state(WHAT, error))?;
        let mut addresses = list.nodes.iter().filter_map(|node| node.source.address.as_deref());
        match addresses.all(|address| printable(address) == address) {
            true => Ok(list),
            false => Err(RlError::state(WHAT, "an address in it has invalid characters")),
        }
    }

    /// Returns the assignment of the node with the given id.
    pub(super) fn of(&self, id: u64) -> Option<&Assignment> {
        self.nodes.iter().find(|entry| entry.id == id)
    }
}

pub(super) fn put_bytes(client: &Client, bytes: Vec<u8>, should_continue: ShouldContinue<'_>) -> Result<()> {
    let step = Nest::dict([("list", item::text_leaf(bytes, WHAT)?)]);
    item::insert(client, &[TABLE], &step, should_continue)
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn the_newest_node_list_is_read_and_other_versions_are_refused() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        assert_eq!(NodeList::get(&client).unwrap(), None);
        let source = Source { address: Some("h:1".to_owned()), reader: Some("1".to_owned()) };
        let list =
            NodeList { most: Some(4), nodes: vec![Assignment { id: u64::MAX, places: vec![2, 9], source }] };
        for list in [&NodeList::default(), &list] {
            list.put(&client, &|| true).unwrap();
        }
        let found = NodeList::get(&client).unwrap().unwrap();
        assert_eq!(found, list);
        assert_eq!(found.of(u64::MAX).unwrap().places, [2, 9]);
        let error =
            NodeList::from_bytes(br#"{"protocol":2,"relive":"9.1.0","list":[]}"#).unwrap_err().to_string();
        assert!(error.contains("9.1.0, protocol 2") && error.contains("the same version"), "{error}");
        let source = Source { address: Some("\u{1b}[2J".to_owned()), reader: None };
        NodeList { most: None, nodes: vec![Assignment { id: 1, places: Vec::new(), source }] }
            .put(&client, &|| true)
            .unwrap();
        assert!(NodeList::get(&client).unwrap_err().to_string().contains("address"));
    }
}
