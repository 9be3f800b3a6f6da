//! Finds the nodes of a graph that are on a cycle.

use std::collections::{BTreeMap, BTreeSet};

/// Edges from each node, each with one example of its origin.
pub(super) type Graph<N> = BTreeMap<N, BTreeMap<N, String>>;

/// Returns the sets of nodes that can reach each other, without the nodes that are not on a cycle.
pub(super) fn cycles<N: Ord + Clone>(graph: &Graph<N>) -> Vec<BTreeSet<N>> {
    let reached: BTreeMap<&N, BTreeSet<&N>> = graph.keys().map(|node| (node, reach(graph, node))).collect();
    let mut cycles = BTreeSet::new();
    for (node, others) in &reached {
        let back = others.iter().filter(|other| reached.get(**other).is_some_and(|them| them.contains(node)));
        let cycle: BTreeSet<N> = back.map(|other| (*other).clone()).collect();
        if !cycle.is_empty() {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reach<'a, N: Ord>(graph: &'a Graph<N>, from: &'a N) -> BTreeSet<&'a N> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        open.extend(
            graph.get(node).into_iter().flat_map(BTreeMap::keys).filter(|next| reached.insert(*next)),
        );
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&'static str, &'static str)]) -> Graph<&'static str> {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(*from).or_insert_with(BTreeMap::new).insert(*to, String::new());
        }
        graph
    }

    #[test]
    fn only_paths_that_return_are_cycles() {
        let found = cycles(&graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "a")]));
        assert_eq!(found, [BTreeSet::from(["b", "c"])]);
        assert!(cycles(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    }
}
