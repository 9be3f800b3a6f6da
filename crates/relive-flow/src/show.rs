//! A graph for people.

use std::fmt::Write;
use std::sync::Arc;

use crate::Flow;
use crate::node::Node;

/// The operators of a graph, each before those that pull from it.
pub(crate) fn order(end: &Arc<Node>) -> Vec<Arc<Node>> {
    fn visit(node: &Arc<Node>, found: &mut Vec<Arc<Node>>) {
        if number(node, found).is_none() {
            node.inputs().iter().for_each(|input| visit(input, found));
            found.push(Arc::clone(node));
        }
    }
    let mut found = Vec::new();
    visit(end, &mut found);
    found
}

pub(crate) fn number(node: &Arc<Node>, order: &[Arc<Node>]) -> Option<usize> {
    order.iter().position(|other| Arc::ptr_eq(other, node))
}

impl<T> Flow<T> {
    /// The graph as text, an operator a line: its number, its name, whom it pulls from, and how many items it has given so far.
    ///
    /// ```
    /// use relive_flow::{Flow, Order};
    ///
    /// let [stored, shown] = Flow::from_iter("steps", 0..6).duplicate(1);
    /// let mut graph = Flow::union([stored.for_each(|step| step * 10), shown], Order::RoundRobin);
    /// graph.next().transpose()?;
    /// assert_eq!(graph.show(), "\
    /// 0  steps                    1 item
    /// 1  copy 0 of 2    ← 0       1 item
    /// 2  for_each       ← 1       1 item
    /// 3  copy 1 of 2    ← 0       0 items
    /// 4  union          ← 2, 3    1 item
    /// ");
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn show(&self) -> String {
        let nodes = order(&self.node);
        let inputs: Vec<String> = nodes.iter().map(|node| input_numbers(node, &nodes)).collect();
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0) + 4;
        let names = width(&mut nodes.iter().map(|node| node.name().chars().count()));
        let froms = width(&mut inputs.iter().map(|from| from.chars().count()));
        let mut text = String::new();
        for (number, (node, from)) in nodes.iter().zip(&inputs).enumerate() {
            let items = node.items();
            let unit = if items == 1 { "item" } else { "items" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number}  {:names$}{from:froms$}{items} {unit}", node.name());
        }
        text
    }

    /// The graph in the language of Mermaid, which notebooks and GitHub draw.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let nodes = order(&self.node);
        let mut text = "flowchart LR\n".to_owned();
        for (at, node) in nodes.iter().enumerate() {
            let _ = writeln!(text, "    n{at}[\"{}\"]", node.name().replace('"', "#quot;"));
            for input in node.inputs().iter().filter_map(|input| number(input, &nodes)) {
                let _ = writeln!(text, "    n{input} --> n{at}");
            }
        }
        text
    }
}

fn input_numbers(node: &Node, nodes: &[Arc<Node>]) -> String {
    let numbers = node.inputs().iter().filter_map(|input| number(input, nodes));
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    if numbers.is_empty() { String::new() } else { format!("← {}", numbers.join(", ")) }
}
