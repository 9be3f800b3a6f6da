//! One column of a pattern: a source column and a selection of its newest steps.

use std::ops::{Bound, RangeBounds};

use relive_connection::{Error, Result};

/// Steps of one source column, counted back from the newest step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternNode {
    source: u32,
    steps: Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// The step with this `age`, without a leading dimension; 1 is the newest.
    One { age: u32 },
    /// Every `stride`th step from `first_age` down to `stop_age`, exclusive. The newest step has age 1, so it is
    /// included if `stop_age` is 0.
    Many { first_age: u32, stop_age: u32, stride: u32 },
}

impl PatternNode {
    /// Returns the number of the source column in the flattened step.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Returns how many steps the column's history must contain.
    pub fn max_age(&self) -> u32 {
        match self.steps {
            Steps::One { age } => age,
            Steps::Many { first_age, .. } => first_age,
        }
    }

    /// Returns whether the column is a single step without a leading dimension.
    pub fn is_squeezed(&self) -> bool {
        matches!(self.steps, Steps::One { .. })
    }

    /// Returns the ages of the selected steps, oldest first; 1 is the newest step.
    pub(crate) fn ages(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, stop, stride) = match self.steps {
            Steps::One { age } => (age, age - 1, 1),
            Steps::Many { first_age, stop_age, stride } => (first_age, stop_age, stride),
        };
        std::iter::successors(Some(first), move |age| age.checked_sub(stride))
            .take_while(move |&age| age > stop)
    }
}

/// A column of the step, from which [`PatternNode`]s are sliced.
/// [`ReferenceStep::column`](crate::ReferenceStep::column) looks it up by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceColumn(u32);

impl SourceColumn {
    /// Returns the column at position `source` of the flattened step.
    pub fn at(source: u32) -> SourceColumn {
        SourceColumn(source)
    }

    /// Returns the number of the column in the flattened step.
    pub fn source(self) -> u32 {
        self.0
    }

    /// Selects one step, without a leading dimension; -1 is the newest.
    ///
    /// # Errors
    /// `InvalidArgument` for a step number that is not negative, since patterns are relative to the newest step.
    pub fn step(self, step: i32) -> Result<PatternNode> {
        if step >= 0 {
            return Err(Error::invalid(format!(
                "a pattern's step must be negative, got {step}; -1 is the newest"
            )));
        }
        Ok(PatternNode { source: self.0, steps: Steps::One { age: step.unsigned_abs() } })
    }

    /// Selects the steps of `range`, for example `-3..` or `-3..-1`, along a leading dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for a range that is empty, has no start, or has a start or stop that is not negative.
    pub fn slice(self, range: impl RangeBounds<i32>) -> Result<PatternNode> {
        self.strided(range, 1)
    }

    /// Selects every `stride`th step of `range`, beginning with its first.
    ///
    /// # Errors
    /// The errors of [`slice`](Self::slice), and `InvalidArgument` for a stride of 0.
    pub fn strided(self, range: impl RangeBounds<i32>, stride: u32) -> Result<PatternNode> {
        let first_age = first_age(range.start_bound())?;
        let stop_age = stop_age(range.end_bound())?;
        if stop_age >= first_age {
            return Err(Error::invalid(format!(
                "the pattern -{first_age}..-{stop_age} is empty: its stop must come after its start"
            )));
        }
        if stride == 0 {
            return Err(Error::invalid("a pattern's stride must be at least 1"));
        }
        Ok(PatternNode { source: self.0, steps: Steps::Many { first_age, stop_age, stride } })
    }
}

fn first_age(bound: Bound<&i32>) -> Result<u32> {
    match bound {
        Bound::Included(&start) if start < 0 => Ok(start.unsigned_abs()),
        Bound::Unbounded => Err(Error::invalid(
            "a pattern needs a start, as in -3.. or -3..-1; without one, it would refer to a different step on every call",
        )),
        Bound::Included(&start) | Bound::Excluded(&start) => {
            Err(Error::invalid(format!("a pattern's start must be negative and inclusive, got {start}")))
        }
    }
}

fn stop_age(bound: Bound<&i32>) -> Result<u32> {
    match bound {
        Bound::Unbounded | Bound::Excluded(&0) => Ok(0),
        Bound::Excluded(&stop) if stop < 0 => Ok(stop.unsigned_abs()),
        Bound::Included(&stop) if stop < 0 => Ok(stop.unsigned_abs() - 1),
        Bound::Included(&stop) | Bound::Excluded(&stop) => {
            Err(Error::invalid(format!("a pattern's stop must not be positive, got {stop}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages(node: Result<PatternNode>) -> Vec<u32> {
        node.unwrap().ages().collect()
    }

    #[test]
    fn the_ages_of_a_slice_are_listed() {
        let column = SourceColumn::at(0);
        assert_eq!(ages(column.step(-2)), [2]);
        assert_eq!(ages(column.slice(-3..)), [3, 2, 1]);
        assert_eq!(ages(column.slice(-3..-1)), [3, 2]);
        assert_eq!(ages(column.slice(-3..=-1)), [3, 2, 1]);
        assert_eq!(ages(column.strided(-8.., 2)), [8, 6, 4, 2]);
        assert_eq!(ages(column.strided(-7..-1, 3)), [7, 4]);
        assert_eq!(ages(column.strided(-2.., 5)), [2]);
    }

    #[test]
    fn ambiguous_slices_are_refused() {
        let column = SourceColumn::at(0);
        for node in [
            column.slice(..-2),
            column.slice(..),
            column.slice(0..),
            column.slice(-2..1),
            column.slice(-2..-2),
            column.slice((Bound::Included(-2), Bound::Excluded(-3))),
            column.strided(-2.., 0),
            column.step(0),
        ] {
            assert_eq!(node.unwrap_err().kind(), relive_connection::ErrorKind::InvalidArgument);
        }
    }
}
