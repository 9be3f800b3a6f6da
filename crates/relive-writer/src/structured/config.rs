//! One pattern with its table, conditions and priority.

use relive_connection::{Error, Result};
use relive_tensor::Nest;

use super::condition::{Condition, Operand};
use super::node::{PatternNode, SourceColumn};

/// A pattern from which a [`StructuredWriter`](crate::StructuredWriter) creates items.
///
/// ```
/// use relive_client::{Condition, Nest, StructuredConfig, reference_step};
///
/// let structure: Nest<()> = Nest::dict([("observation", ()), ("action", ())]);
/// let step = reference_step(&structure);
/// let pattern = Nest::dict([
///     ("observation", step.column("observation")?.slice(-3..)?),
///     ("action", step.column("action")?.step(-2)?),
/// ]);
/// let config = StructuredConfig::new("replay", pattern).condition(Condition::step_index().modulo(2, 0));
/// assert_eq!(config.max_age(), 3);
/// # Ok::<(), relive_client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StructuredConfig {
    table: String,
    pattern: Nest<PatternNode>,
    conditions: Vec<Condition>,
    priority: PriorityFn,
}

impl StructuredConfig {
    /// Creates a configuration that creates items from `pattern` for `table` with priority 1, at every step at which
    /// the history has enough steps.
    pub fn new(table: impl Into<String>, pattern: Nest<PatternNode>) -> StructuredConfig {
        StructuredConfig {
            table: table.into(),
            pattern,
            conditions: Vec::new(),
            priority: PriorityFn::default(),
        }
    }

    /// Adds a condition. All conditions must hold.
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> StructuredConfig {
        self.conditions.push(condition);
        self
    }

    /// Sets how the priority of an item is computed.
    #[must_use]
    pub fn priority(mut self, priority: PriorityFn) -> StructuredConfig {
        self.priority = priority;
        self
    }

    /// Returns the table of the items.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &Nest<PatternNode> {
        &self.pattern
    }

    /// Returns the columns of an item, in flattening order.
    pub fn nodes(&self) -> impl Iterator<Item = &PatternNode> {
        self.pattern.leaves()
    }

    /// Returns how many of the newest steps the pattern needs.
    pub fn max_age(&self) -> u32 {
        self.nodes().map(PatternNode::max_age).max().unwrap_or(0)
    }

    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    pub(crate) fn priority_fn(&self) -> PriorityFn {
        self.priority
    }

    /// Returns the source columns that the pattern and its conditions use.
    pub(crate) fn sources(&self) -> impl Iterator<Item = u32> {
        let data = self.conditions.iter().filter_map(|condition| match condition.left {
            Operand::Data { source } => Some(source),
            _ => None,
        });
        self.nodes().map(PatternNode::source).chain(data)
    }

    /// Validates the configuration, and adds the condition that the history has enough steps.
    pub(crate) fn validated(mut self) -> Result<StructuredConfig> {
        if let Some(fault) = self.fault() {
            return Err(Error::invalid(fault));
        }
        let max_age = i64::from(self.max_age());
        self.conditions.push(Condition::buffer_length().ge(max_age));
        Ok(self)
    }

    fn fault(&self) -> Option<String> {
        if self.table.is_empty() {
            return Some("the name of the table is empty".to_owned());
        }
        if self.nodes().next().is_none() {
            return Some("the pattern has no columns".to_owned());
        }
        let fault = self.conditions.iter().find_map(Condition::fault);
        fault.map(str::to_owned).or_else(|| self.priority_fault())
    }

    fn priority_fault(&self) -> Option<String> {
        match self.priority {
            PriorityFn::Constant(value) if value.is_nan() => Some("the constant priority is NaN".to_owned()),
            PriorityFn::TdError { max_priority_weight, .. }
                if !(0.0..=1.0).contains(&max_priority_weight) =>
            {
                Some(format!("max_priority_weight must be in 0..=1, got {max_priority_weight}"))
            }
            PriorityFn::TdError { column, .. }
                if !self.nodes().any(|node| node.source() == column.source()) =>
            {
                let source = column.source();
                Some(format!("the priority uses column {source}, which the pattern does not emit"))
            }
            PriorityFn::Constant(_) | PriorityFn::TdError { .. } => None,
        }
    }
}

/// Validates all configurations of a writer. An error states which one is invalid.
pub(crate) fn validate_all(configs: Vec<StructuredConfig>) -> Result<Vec<StructuredConfig>> {
    if configs.is_empty() {
        return Err(Error::invalid("a structured writer needs at least one configuration"));
    }
    let validate = |(position, config): (usize, StructuredConfig)| {
        config
            .validated()
            .map_err(|error| Error::invalid(format!("Invalid configuration at position {position}: {error}")))
    };
    configs.into_iter().enumerate().map(validate).collect()
}

/// How the priority of an item is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PriorityFn {
    /// A constant.
    Constant(f64),
    /// `w * max|x| + (1 - w) * mean|x|` over the steps `x` of an emitted column, as in R2D2 (Kapturowski et al. 2019,
    /// section 2.3), where `x` are temporal-difference errors.
    TdError {
        /// The weight `w` of the largest error, from 0 to 1.
        max_priority_weight: f64,
        /// The source column; its cells are single f32, f64, i32 or i64 values, and the pattern must emit it.
        column: SourceColumn,
    },
}

impl Default for PriorityFn {
    /// Priority 1 for every item.
    fn default() -> PriorityFn {
        PriorityFn::Constant(1.0)
    }
}

/// Returns `w * max|x| + (1 - w) * mean|x|`, or `None` if there are no values.
pub(crate) fn td_error(max_priority_weight: f64, values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut max) = (0_u32, 0.0_f64, 0.0_f64);
    for value in values {
        count += 1;
        sum += value.abs();
        max = max.max(value.abs());
    }
    (count > 0).then(|| max_priority_weight * max + (1.0 - max_priority_weight) * sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(age: i32) -> Nest<PatternNode> {
        Nest::Leaf(SourceColumn::at(0).step(-age).unwrap())
    }

    #[test]
    fn faults_name_the_position() {
        let good = || StructuredConfig::new("t", leaf(1));
        let td = |weight, source| PriorityFn::TdError {
            max_priority_weight: weight,
            column: SourceColumn::at(source),
        };
        for bad in [
            StructuredConfig::new("", leaf(1)),
            StructuredConfig::new("t", Nest::List(Vec::new())),
            good().condition(Condition::step_index().modulo(0, 1)),
            good().priority(PriorityFn::Constant(f64::NAN)),
            good().priority(td(1.5, 0)),
            good().priority(td(0.5, 3)),
        ] {
            let error = validate_all(vec![good(), bad]).unwrap_err();
            assert!(error.to_string().starts_with("Invalid configuration at position 1: "), "{error}");
        }
        assert!(validate_all(Vec::new()).is_err());
    }

    #[test]
    fn the_largest_age_becomes_a_condition() {
        let config = StructuredConfig::new("t", Nest::List(vec![leaf(2), leaf(4)])).validated().unwrap();
        assert_eq!(config.conditions(), [Condition::buffer_length().ge(4)]);
    }

    #[test]
    fn td_error_mixes_maximum_and_mean() {
        let found = td_error(0.9, [1.0, -3.0].into_iter()).unwrap();
        assert!((found - 2.9).abs() < 1e-12, "{found}");
        assert_eq!(td_error(0.5, std::iter::empty()), None);
    }
}
