//! Graphs as text and diagrams.

use std::fmt::Write;

use crate::Flow;
use crate::graph::{Operator, operators};

impl<T> Flow<T> {
    /// Returns the graph as text, with one operator per line: its number, its name, the operators from which it pulls,
    /// and the number of its items so far. The corresponding operators of several shards share one line, with the sum
    /// of their items. A shard creates its operators when it starts, at the first pull; before that, they are not
    /// shown.
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
        let operators = operators(&self.node);
        let inputs: Vec<String> = operators.iter().map(input_numbers).collect();
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0) + 4;
        let names = width(&mut operators.iter().map(|operator| operator.name().chars().count()));
        let froms = width(&mut inputs.iter().map(|from| from.chars().count()));
        let mut text = String::new();
        for (number, (operator, from)) in operators.iter().zip(&inputs).enumerate() {
            let items = operator.items();
            let unit = if items == 1 { "item" } else { "items" };
            let (name, place) = (operator.name(), place(operator));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number}  {name:names$}{from:froms$}{items} {unit}{place}");
        }
        text
    }

    /// Returns the graph as a Mermaid diagram, which notebooks and GitHub render. Shards appear as in
    /// [`show`](Self::show).
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n".to_owned();
        for (at, operator) in operators(&self.node).iter().enumerate() {
            let (name, place) = (operator.name().replace('"', "#quot;"), place(operator));
            let _ = writeln!(text, "    n{at}[\"{name}{place}\"]");
            for input in &operator.inputs {
                let _ = writeln!(text, "    n{input} --> n{at}");
            }
        }
        text
    }
}

/// Describes the number of shards of an operator.
fn place(operator: &Operator) -> String {
    match operator.shards() {
        None => String::new(),
        Some(1) => " in 1 shard".to_owned(),
        Some(shards) => format!(" in {shards} shards"),
    }
}

fn input_numbers(operator: &Operator) -> String {
    let numbers: Vec<String> = operator.inputs.iter().map(ToString::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!("← {}", numbers.join(", ")) }
}
