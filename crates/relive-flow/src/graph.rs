//! The operators of a graph as a list, in which operators that exist in several shards appear once.

use std::sync::Arc;
use std::time::Duration;

use crate::node::Node;

/// An operator of a graph, or the corresponding operators of several shards.
pub(crate) struct Operator {
    /// The nodes, at least one.
    nodes: Vec<Arc<Node>>,
    /// The indices of the operators from which this operator pulls.
    pub(crate) inputs: Vec<usize>,
    is_in_shards: bool,
}

/// Returns the operators of the graph that ends with `end`, each after the operators from which it pulls.
pub(crate) fn operators(end: &Arc<Node>) -> Vec<Operator> {
    let mut list = Vec::new();
    add(vec![Arc::clone(end)], false, &mut list);
    list
}

impl Operator {
    pub(crate) fn name(&self) -> Arc<str> {
        self.nodes.first().map_or_else(|| Arc::from(""), |node| node.name())
    }

    /// Returns whether the operator pulls from shards that have no operators yet.
    pub(crate) fn has_unstarted_shards(&self) -> bool {
        self.nodes.iter().filter_map(|node| node.shards()).any(|shards| shards.has_unstarted())
    }

    /// Returns the number of the operator's shards, or `None` if the operator runs in the pulling thread.
    pub(crate) fn shards(&self) -> Option<usize> {
        self.is_in_shards.then_some(self.nodes.len())
    }

    /// Returns the number of items that the operator has produced, in all shards.
    pub(crate) fn items(&self) -> u64 {
        self.nodes.iter().map(|node| node.items()).sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.nodes.iter().map(|node| node.errors()).sum()
    }

    /// Returns the total size in bytes of the produced items, in all shards, if it is measured.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.bytes()).reduce(u64::saturating_add)
    }

    /// Returns the number of items in the operator's queue, in all shards, if the operator has a queue.
    pub(crate) fn queued(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.queued()).reduce(u64::saturating_add)
    }

    /// Returns the number of items that the operator has dropped, in all shards, if it may drop any.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.dropped()).reduce(u64::saturating_add)
    }

    /// Returns how long a pull has waited in the operator; for shards, the longest wait.
    pub(crate) fn waits(&self) -> Option<Duration> {
        self.nodes.iter().filter_map(|node| node.waits()).max()
    }
}

/// Adds an operator, or the corresponding operators of several shards, after all operators from which they pull.
/// Returns its index.
fn add(nodes: Vec<Arc<Node>>, is_in_shards: bool, list: &mut Vec<Operator>) -> usize {
    let same = |(one, other): (&Arc<Node>, &Arc<Node>)| Arc::ptr_eq(one, other);
    let known = list.iter().position(|operator| operator.nodes.first().zip(nodes.first()).is_some_and(same));
    if let Some(number) = known {
        return number;
    }
    let mut inputs = Vec::new();
    for place in 0..nodes.first().map_or(0, |node| node.inputs().len()) {
        let input = distinct(nodes.iter().filter_map(|node| node.inputs().get(place)));
        inputs.push(add(input, is_in_shards, list));
    }
    let shards = distinct(nodes.iter().filter_map(|node| node.shards()));
    for ends in alike(shards.iter().flat_map(|shards| shards.ends())) {
        inputs.push(add(ends, true, list));
    }
    list.push(Operator { nodes, inputs, is_in_shards });
    list.len() - 1
}

/// Removes duplicates.
fn distinct<'a, N: 'a>(all: impl Iterator<Item = &'a Arc<N>>) -> Vec<Arc<N>> {
    let mut found: Vec<Arc<N>> = Vec::new();
    for one in all {
        if !found.iter().any(|other| Arc::ptr_eq(one, other)) {
            found.push(Arc::clone(one));
        }
    }
    found
}

/// Returns the last operators of shards. Shards with equal operators form a group.
fn alike(ends: impl Iterator<Item = Arc<Node>>) -> Vec<Vec<Arc<Node>>> {
    let mut groups: Vec<(Vec<_>, Vec<Arc<Node>>)> = Vec::new();
    for end in ends {
        let shape =
            operators(&end).iter().map(|operator| (operator.name(), operator.inputs.clone())).collect();
        match groups.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, group)) => group.push(end),
            None => groups.push((shape, vec![end])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
