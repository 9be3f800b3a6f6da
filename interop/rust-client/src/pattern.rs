//! Patterns of a structured writer as JSON.

use relive::{Condition, Error, Nest, PatternNode, PriorityFn, SourceColumn, StructuredConfig};
use serde::Deserialize;

/// One configuration; its pattern is a list of columns.
#[derive(Debug, Deserialize)]
pub(crate) struct PatternConfig {
    table: String,
    nodes: Vec<Node>,
    #[serde(default)]
    conditions: Vec<ConditionValue>,
    /// (weight, source column) of a priority from TD errors; if absent, the priority is 1.
    td_error: Option<(f64, u32)>,
}

/// A single step, or a range with a stride.
#[derive(Debug, Deserialize)]
struct Node {
    source: u32,
    step: Option<i32>,
    range: Option<(i32, i32, u32)>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConditionValue {
    StepIndexModulo(i64, i64),
    StepsSinceAppliedAtLeast(i64),
    IsEndEpisode,
}

impl PatternConfig {
    pub(crate) fn config(&self) -> Result<StructuredConfig, Error> {
        let nodes = self.nodes.iter().map(Node::node).map(|node| node.map(Nest::Leaf));
        let pattern = Nest::List(nodes.collect::<Result<_, _>>()?);
        let mut config = StructuredConfig::new(&self.table, pattern);
        for condition in &self.conditions {
            config = config.condition(condition.condition());
        }
        if let Some((max_priority_weight, source)) = self.td_error {
            let column = SourceColumn::at(source);
            config = config.priority(PriorityFn::TdError { max_priority_weight, column });
        }
        Ok(config)
    }
}

impl Node {
    fn node(&self) -> Result<PatternNode, Error> {
        let column = SourceColumn::at(self.source);
        match (self.step, self.range) {
            (None, Some((start, stop, stride))) => column.strided(start..stop, stride),
            (step, _) => column.step(step.unwrap_or(-1)),
        }
    }
}

impl ConditionValue {
    fn condition(&self) -> Condition {
        match *self {
            Self::StepIndexModulo(modulus, remainder) => Condition::step_index().modulo(modulus, remainder),
            Self::StepsSinceAppliedAtLeast(steps) => Condition::steps_since_applied().ge(steps),
            Self::IsEndEpisode => Condition::is_end_episode(),
        }
    }
}
