//! The tables of nodes: tables for the messages between nodes and the driver, and boxes in which nodes wait for
//! weights. A tree determines the source of each node's weights.

use std::fmt::Display;
use std::sync::Arc;

use relive_client::blocking::Client;
use relive_table::TableConfig;

use super::{heartbeat, list};
use crate::Result;
use crate::tables::weights;

/// Creates a client for the server at an address.
pub type Connect = Arc<dyn Fn(&str) -> Result<Client> + Send + Sync>;

/// Returns the tables of nodes on the run's server.
pub(crate) fn tables() -> impl Iterator<Item = TableConfig> {
    [heartbeat::table(), list::table()].into_iter().chain(node_weight_tables())
}

/// Returns one box for each of the nodes that share a source of weights.
pub(super) fn node_weight_tables() -> impl Iterator<Item = TableConfig> {
    (0..FAN_OUT).map(|slot| weights::fresh(&slot.to_string()))
}

/// Returns the box of a worker, on the worker's node.
pub(crate) fn worker_weight_table(number: impl Display) -> String {
    format!("worker-{number}")
}

/// The maximum number of nodes that take weights from the same source, which is the run's server or another node.
pub(super) const FAN_OUT: usize = 2;

/// The source of a node's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Branch {
    /// The index of the node that provides the weights; `None` means the run's server.
    pub(super) parent: Option<usize>,
    /// The number of the node's box at the source, below [`FAN_OUT`].
    pub(super) slot: usize,
}

/// Returns the position in the tree of the node that has the given index among the nodes that pass weights on.
pub(super) fn branch(index: usize) -> Branch {
    Branch { parent: index.checked_sub(FAN_OUT).map(|beyond| beyond / FAN_OUT), slot: index % FAN_OUT }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_weight_box_has_one_reader_and_the_tree_is_shallow() {
        let branches: Vec<Branch> = (0..100).map(branch).collect();
        let distinct: HashSet<_> = branches.iter().map(|branch| (branch.parent, branch.slot)).collect();
        assert_eq!(distinct.len(), branches.len());
        for (index, branch) in branches.iter().enumerate() {
            assert!(branch.slot < FAN_OUT && branch.parent.is_none_or(|parent| parent < index), "{branch:?}");
        }
        let depth = |index: usize| std::iter::successors(Some(index), |at| branches[*at].parent).count();
        assert_eq!([0, 1, 2, 5, 6, 13, 14].map(depth), [1, 1, 2, 2, 3, 3, 4]);
    }
}
