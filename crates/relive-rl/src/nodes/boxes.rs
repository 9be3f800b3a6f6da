//! The tables of nodes: how they and the driver of a run meet, and the boxes in which weights wait for them.

use std::fmt::Display;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_table::TableConfig;

use super::{list, sign, tree};
use crate::Result;
use crate::tables::weights;

/// Makes a client of the server at an address.
pub type Connect = Arc<dyn Fn(&str) -> Result<Client> + Send + Sync>;

/// Those of the run's server.
pub(crate) fn tables() -> impl Iterator<Item = TableConfig> {
    [sign::table(), list::table()].into_iter().chain(boxes_of_nodes())
}

/// Boxes for the nodes that take weights from one place.
pub(super) fn boxes_of_nodes() -> impl Iterator<Item = TableConfig> {
    (0..tree::FAN_OUT).map(|slot| weights::fresh(&slot.to_string()))
}

/// The box of a worker, at its node.
pub(crate) fn box_of_worker(number: impl Display) -> String {
    format!("worker-{number}")
}
