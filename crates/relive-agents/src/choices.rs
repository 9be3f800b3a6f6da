//! Actions that consist of choices.

use std::ops::Range;

use relive_env::{ArraySpec, Buffer, Domain, EnvironmentSpec};
use relive_tensor::{DType, Nest};

/// The maximum number of values of a number in an array of choices. Numbers with more values are rather quantities.
const MAX_VALUES: f64 = 65_536.0;

/// An action of whole numbers, each of which is a choice: one discrete action, or an array of integers between bounds,
/// such as an action of Gymnasium's `MultiDiscrete` or `MultiBinary`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choices {
    /// The number of values of each choice.
    counts: Vec<usize>,
    /// The first value of each choice.
    first: Vec<i64>,
    /// The size of a number in bytes.
    size: usize,
}

impl Choices {
    /// Returns the choices of an environment, if its action consists of choices.
    pub(crate) fn of(spec: &EnvironmentSpec) -> Option<Choices> {
        let Nest::Leaf(leaf) = &spec.actions else { return None };
        let ranges = (0..leaf.num_elements().ok()?).map(|element| range(leaf, element));
        let (first, counts) = ranges.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        is_whole(leaf.dtype).then_some(Choices { counts, first, size: leaf.dtype.size_bytes()? })
    }

    /// Returns the number of values of each choice.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Returns the places of each choice's values in a list of the values of all choices.
    pub(crate) fn places(counts: &[usize]) -> impl Iterator<Item = Range<usize>> {
        counts.iter().scan(0, |end, count| {
            let start = *end;
            *end += count;
            Some(start..*end)
        })
    }

    /// Writes the values of all choices, counted from 0, to a row of a buffer of actions.
    pub(crate) fn write(&self, values: impl Iterator<Item = usize>, actions: &mut Buffer, row: usize) {
        let row_bytes = self.counts.len() * self.size;
        let row = &mut actions.leaf_bytes_mut(0).unwrap_or_default()[row * row_bytes..][..row_bytes];
        for ((bytes, first), value) in row.chunks_exact_mut(self.size).zip(&self.first).zip(values) {
            let number = first.wrapping_add_unsigned(value as u64);
            bytes.copy_from_slice(&number.to_le_bytes()[..self.size]);
        }
    }

    /// Reads the values of all choices, counted from 0, of all actions in a buffer. A number that is out of range is
    /// converted to a value that is out of range, which is rejected when it is used.
    pub(crate) fn read(&self, actions: &Buffer, values: &mut Vec<usize>) {
        // Numbers of fewer than 8 bytes are subtracted without their sign; the difference has the same bytes.
        let mask = u64::MAX >> (8 * (size_of::<u64>() - self.size));
        let value = |(bytes, first): (&[u8], &i64)| {
            let mut number = [0; size_of::<i64>()];
            number[..self.size].copy_from_slice(bytes);
            let value = i64::from_le_bytes(number).wrapping_sub(*first).cast_unsigned() & mask;
            usize::try_from(value).unwrap_or(usize::MAX)
        };
        let bytes = actions.leaf_bytes(0).unwrap_or_default();
        values.clear();
        values.extend(bytes.chunks_exact(self.size).zip(self.first.iter().cycle()).map(value));
    }
}

/// Returns the first value and the number of values of an element, if it is a choice.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers, the count at most 2^32"
)]
fn range(leaf: &ArraySpec, element: usize) -> Option<(i64, usize)> {
    let (low, high) = leaf.bounds(element);
    let count = high - low + 1.0;
    let is_choice = matches!(leaf.domain, Domain::Discrete(_)) || count <= MAX_VALUES;
    is_choice.then_some((low as i64, count as usize))
}

fn is_whole(dtype: DType) -> bool {
    use DType as D;
    matches!(dtype, D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::UInt8 | D::UInt16 | D::UInt32 | D::UInt64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(actions: ArraySpec) -> Option<Choices> {
        Choices::of(&EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions))
    }

    #[test]
    fn values_of_every_type_are_counted_from_the_first() {
        for dtype in [DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8, DType::UInt64] {
            let least = if matches!(dtype, DType::UInt8 | DType::UInt64) { 1.0 } else { -2.0 };
            let leaf = ArraySpec::new("", dtype, [2]).bounded_each(vec![least, 0.0], vec![least + 2.0, 1.0]);
            let choices = choices(leaf.clone()).unwrap();
            assert_eq!(choices.counts(), [3, 2]);
            let mut actions = Buffer::for_nest(&Nest::Leaf(leaf), 3).unwrap();
            choices.write([2, 0].into_iter(), &mut actions, 0);
            choices.write([0, 1].into_iter(), &mut actions, 2);
            let mut values = Vec::new();
            choices.read(&actions, &mut values);
            // The row that was not written contains zeros.
            assert_eq!([&values[..2], &values[3..]].concat(), [2, 0, 0, 0, 1]);
            assert_eq!(values[2] < 3, least < 0.0, "{dtype}");
        }
    }

    #[test]
    fn written_numbers_are_between_the_bounds() {
        let leaf = ArraySpec::new("", DType::Int8, [2]).bounded_each(vec![-3.0, 5.0], vec![-1.0, 6.0]);
        let mut actions = Buffer::for_nest(&Nest::Leaf(leaf.clone()), 1).unwrap();
        choices(leaf).unwrap().write([2, 1].into_iter(), &mut actions, 0);
        assert_eq!(actions.leaf::<i8>(0).unwrap(), [-1, 6]);
    }

    #[test]
    fn only_whole_numbers_with_few_values_are_choices() {
        let array = |dtype| ArraySpec::new("", dtype, [3]);
        assert_eq!(choices(ArraySpec::discrete("", 100_000)).unwrap().counts(), [100_000]);
        assert_eq!(choices(array(DType::Int64).bounded(0.0, 65_535.0)).unwrap().counts(), [65_536; 3]);
        assert_eq!(choices(array(DType::Int64).bounded(0.0, 65_536.0)), None);
        assert_eq!(choices(array(DType::Int64)), None);
        assert_eq!(choices(array(DType::Float32).bounded(0.0, 1.0)), None);
    }

    #[test]
    fn places_follow_each_other() {
        assert_eq!(Choices::places(&[3, 1, 2]).collect::<Vec<_>>(), [0..3, 3..4, 4..6]);
    }
}
