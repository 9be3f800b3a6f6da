//! The conditions of patterns.

use super::node::SourceColumn;

/// A condition on the state of the writer. A pattern creates an item when all of its conditions hold.
///
/// ```
/// use relive_client::{Client, Condition, Nest, SourceColumn, StructuredConfig, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("replay", 10)).build()?);
/// let newest = Nest::Leaf(SourceColumn::at(0).step(-1)?);
/// let every_third_step = Condition::step_index().modulo(3, 0);
/// let not_the_first = Condition::step_index().ge(1);
/// let config = StructuredConfig::new("replay", newest).condition(every_third_step).condition(not_the_first);
/// let mut writer = client.structured_writer(vec![config])?;
/// for x in 0..8_i32 {
///     writer.append(&Nest::Leaf(Tensor::scalar(x))).await?;
/// }
/// writer.close().await?;
///
/// let items = client.sample("replay", 2).await?;
/// assert_eq!(items[0].columns()?, [Tensor::scalar(3_i32)]);
/// assert_eq!(items[1].columns()?, [Tensor::scalar(6_i32)]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    pub(crate) left: Operand,
    pub(crate) comparison: Comparison,
    pub(crate) inverse: bool,
}

/// The left side of a [`Condition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The number of the step in its episode, from 0.
    StepIndex,
    /// The number of steps since the pattern was last applied.
    StepsSinceApplied,
    /// The number of steps in the history, limited to the pattern's largest age.
    BufferLength,
    /// 1 at the end of the episode, and otherwise 0.
    IsEndEpisode,
    /// The newest value of a column: one integer or bool. In a step without this value, the condition does not hold.
    Data {
        /// The number of the column in the flattened step.
        source: u32,
    },
}

/// The comparison that a [`Condition`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Equal to the number.
    Eq(i64),
    /// At least the number.
    Ge(i64),
    /// The remainder of the division by `modulus` equals `remainder`. The remainder of a negative number is not
    /// positive.
    Modulo {
        /// Divisor, at least 1.
        modulus: i64,
        /// Expected remainder, not negative.
        remainder: i64,
    },
}

impl Condition {
    /// Compares the number of the step in its episode, from 0.
    pub fn step_index() -> OperandBuilder {
        OperandBuilder(Operand::StepIndex)
    }

    /// Compares the number of steps since the pattern was last applied.
    pub fn steps_since_applied() -> OperandBuilder {
        OperandBuilder(Operand::StepsSinceApplied)
    }

    /// Compares the number of steps in the history, limited to the pattern's largest age.
    pub fn buffer_length() -> OperandBuilder {
        OperandBuilder(Operand::BufferLength)
    }

    /// Compares the newest value of a column, which must be one integer or bool.
    pub fn data(column: SourceColumn) -> OperandBuilder {
        OperandBuilder(Operand::Data { source: column.source() })
    }

    /// Holds at the end of the episode.
    pub fn is_end_episode() -> Condition {
        OperandBuilder(Operand::IsEndEpisode).eq(1)
    }

    pub(crate) fn holds(&self, values: &ConditionValues<'_>) -> bool {
        let left = match self.left {
            Operand::StepIndex => Some(values.step_index),
            Operand::StepsSinceApplied => Some(values.steps_since_applied),
            Operand::BufferLength => Some(values.buffer_length),
            Operand::IsEndEpisode => Some(i64::from(values.is_end_episode)),
            Operand::Data { source } => (values.data)(source),
        };
        left.is_some_and(|left| self.comparison.holds(left) != self.inverse)
    }

    /// Returns the reason why the condition is invalid.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self.comparison {
            Comparison::Modulo { modulus, .. } if modulus < 1 => Some("a modulus must be at least 1"),
            Comparison::Modulo { remainder, .. } if remainder < 0 => Some("a remainder must not be negative"),
            comparison
                if self.left == Operand::IsEndEpisode
                    && (comparison != Comparison::Eq(1) || self.inverse) =>
            {
                Some("is_end_episode can only be required to be true")
            }
            Comparison::Eq(_) | Comparison::Ge(_) | Comparison::Modulo { .. } => None,
        }
    }
}

/// The left side of a [`Condition`] without its comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandBuilder(Operand);

impl OperandBuilder {
    /// Equal to `value`.
    pub fn eq(self, value: i64) -> Condition {
        self.with(Comparison::Eq(value), false)
    }

    /// Not equal to `value`.
    pub fn ne(self, value: i64) -> Condition {
        self.with(Comparison::Eq(value), true)
    }

    /// At least `value`.
    pub fn ge(self, value: i64) -> Condition {
        self.with(Comparison::Ge(value), false)
    }

    /// Less than `value`.
    pub fn lt(self, value: i64) -> Condition {
        self.with(Comparison::Ge(value), true)
    }

    /// Greater than `value`.
    pub fn gt(self, value: i64) -> Condition {
        self.above(value, false)
    }

    /// At most `value`.
    pub fn le(self, value: i64) -> Condition {
        self.above(value, true)
    }

    /// The remainder of the division by `modulus` is `remainder`.
    pub fn modulo(self, modulus: i64, remainder: i64) -> Condition {
        self.with(Comparison::Modulo { modulus, remainder }, false)
    }

    /// The remainder of the division by `modulus` is not `remainder`.
    pub fn not_modulo(self, modulus: i64, remainder: i64) -> Condition {
        self.with(Comparison::Modulo { modulus, remainder }, true)
    }

    /// Greater than `value`, or with `inverse`, at most `value`.
    fn above(self, value: i64, inverse: bool) -> Condition {
        match value.checked_add(1) {
            Some(least) => self.with(Comparison::Ge(least), inverse),
            // No number is greater: the opposite of a comparison that holds for all numbers.
            None => self.with(Comparison::Ge(i64::MIN), !inverse),
        }
    }

    fn with(self, comparison: Comparison, inverse: bool) -> Condition {
        Condition { left: self.0, comparison, inverse }
    }
}

impl Comparison {
    fn holds(self, left: i64) -> bool {
        match self {
            Comparison::Eq(right) => left == right,
            Comparison::Ge(right) => left >= right,
            Comparison::Modulo { modulus, remainder } => left.checked_rem(modulus) == Some(remainder),
        }
    }
}

/// The values that conditions compare, at one point in time.
pub(crate) struct ConditionValues<'a> {
    pub(crate) step_index: i64,
    pub(crate) steps_since_applied: i64,
    pub(crate) buffer_length: i64,
    pub(crate) is_end_episode: bool,
    pub(crate) data: &'a dyn Fn(u32) -> Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: Condition, step_index: i64) -> bool {
        condition.holds(&ConditionValues {
            step_index,
            steps_since_applied: 0,
            buffer_length: 0,
            is_end_episode: false,
            data: &|source| (source == 1).then_some(7),
        })
    }

    #[test]
    fn comparisons() {
        let step = Condition::step_index();
        let table: [(Condition, [bool; 4]); 8] = [
            (step.eq(2), [false, false, true, false]),
            (step.ne(2), [true, true, false, true]),
            (step.ge(2), [false, false, true, true]),
            (step.lt(2), [true, true, false, false]),
            (step.gt(2), [false, false, false, true]),
            (step.le(2), [true, true, true, false]),
            (step.modulo(2, 1), [false, true, false, true]),
            (step.not_modulo(2, 1), [true, false, true, false]),
        ];
        for (condition, expected) in table {
            let found: Vec<bool> = (0..4).map(|step| holds(condition, step)).collect();
            assert_eq!(found, expected, "{condition:?}");
        }
    }

    #[test]
    fn comparisons_with_the_largest_number() {
        let step = Condition::step_index();
        for number in [i64::MIN, 0, i64::MAX] {
            assert!(!holds(step.gt(i64::MAX), number) && holds(step.le(i64::MAX), number), "{number}");
        }
        assert!(holds(step.gt(i64::MAX - 1), i64::MAX) && !holds(step.le(i64::MAX - 1), i64::MAX));
        let missing = Condition::data(SourceColumn::at(0));
        assert!(!holds(missing.le(i64::MAX), 0));
    }

    #[test]
    fn a_step_without_the_value_meets_neither_condition_nor_inverse() {
        assert!(holds(Condition::data(SourceColumn::at(1)).eq(7), 0));
        assert!(!holds(Condition::data(SourceColumn::at(0)).eq(7), 0));
        assert!(!holds(Condition::data(SourceColumn::at(0)).ne(7), 0));
    }

    #[test]
    fn faults() {
        assert!(Condition::step_index().modulo(0, 0).fault().is_some());
        assert!(Condition::step_index().modulo(2, -1).fault().is_some());
        assert!(OperandBuilder(Operand::IsEndEpisode).ne(1).fault().is_some());
        assert!(OperandBuilder(Operand::IsEndEpisode).eq(0).fault().is_some());
        assert!(Condition::is_end_episode().fault().is_none());
    }
}
