//! The steps of a trajectory in a batch.

use relive_tensor::DType;

/// The side of a window on which padding is placed if the trajectory does not have all of its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pad {
    /// Before the steps, which are at the end of the window.
    #[default]
    Head,
    /// After the steps, which are at the start of the window.
    Tail,
}

/// Another element type for a window of bools (`true` is 1), integers or floats: each value is converted to float32,
/// multiplied by `scale`, and converted to the new type, each time rounded to nearest, ties to even. NaN keeps its sign
/// and the upper bits of its payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast {
    /// Float16, bfloat16, float32, or float64; the latter only for types of at most 16 bits and float32, all values of
    /// which a float32 represents.
    pub to: DType,
    /// 1 leaves values unchanged.
    pub scale: f32,
}

/// A column in a batch: `length` steps, starting `offset` steps from a row's current step.
///
/// ```
/// use relive_gpu::Window;
/// // The 20 steps before the current one.
/// let history = Window::new("observation", -20, 20);
/// // The next one.
/// let next = Window::new("action", 0, 1);
/// # assert_eq!((history.offset, next.length), (-20, 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The column's name.
    pub column: String,
    /// The offset of the first step from the current one.
    pub offset: i64,
    /// The number of steps.
    pub length: u64,
    /// The side on which padding is placed.
    pub pad: Pad,
    /// The padding value, in the batch's type.
    pub pad_value: f64,
    /// Conversion to a type other than the column's.
    pub cast: Option<Cast>,
}

impl Window {
    /// Creates a window of a column that is padded with zeros before the existing steps.
    #[must_use]
    pub fn new(column: impl Into<String>, offset: i64, length: u64) -> Self {
        Self { column: column.into(), offset, length, pad: Pad::Head, pad_value: 0.0, cast: None }
    }
}

/// The steps of a trajectory that fall into a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub begin: u64,
    /// The number of steps.
    pub count: u64,
    /// The position of the first step in the window. Everything before the first step and after the last one is
    /// padding.
    pub at: u64,
}

/// Returns the steps of a trajectory of `steps` steps that fall into a window of `length` steps from `step + offset`:
/// from `max(step + offset, 0)` to `min(step + offset + length, steps)`, exclusive.
///
/// The end counts from the requested offset: a window that is cut off at its start does not extend further at its end.
#[must_use]
pub fn span(step: u64, steps: u64, offset: i64, length: u64, pad: Pad) -> Span {
    span_from(i128::from(step) + i128::from(offset), steps, length, pad)
}

/// Like [`span`], but for a window that starts at step `from`, which may be negative.
pub(crate) fn span_from(from: i128, steps: u64, length: u64, pad: Pad) -> Span {
    let end = (from + i128::from(length)).min(i128::from(steps));
    let begin = from.max(0);
    let count = u64::try_from(end - begin).unwrap_or(0);
    let at = match pad {
        Pad::Head => length - count,
        Pad::Tail => 0,
    };
    // If there are no steps, the start has no meaning.
    let begin = if count == 0 { 0 } else { u64::try_from(begin).unwrap_or(0) };
    Span { begin, count, at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks each step of the window on its own.
    fn naive(step: u64, steps: u64, offset: i64, length: u64) -> Vec<u64> {
        let all = (0..length).map(|i| i128::from(step) + i128::from(offset) + i128::from(i));
        all.filter(|&t| t >= 0 && t < i128::from(steps)).map(|t| u64::try_from(t).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn spans_match_the_naive_model(
            (steps, step) in (0_u64..30).prop_flat_map(|steps| (Just(steps), 0..=steps)),
            offset in -40_i64..40, length in 1_u64..40, head in any::<bool>(),
        ) {
            let pad = if head { Pad::Head } else { Pad::Tail };
            let expected = naive(step, steps, offset, length);
            let found = span(step, steps, offset, length, pad);
            let steps: Vec<u64> = (found.begin..found.begin + found.count).collect();
            prop_assert_eq!(steps, expected);
            prop_assert_eq!(found.at, if head { length - found.count } else { 0 });
        }
    }

    #[test]
    fn spans_of_a_whole_episode_and_of_a_truncated_start() {
        assert_eq!(span(700, 700, -1000, 1000, Pad::Head), Span { begin: 0, count: 700, at: 300 });
        // The window ends at the current step, not at step 100.
        assert_eq!(span(50, 900, -100, 100, Pad::Tail), Span { begin: 0, count: 50, at: 0 });
        assert_eq!(span(u64::MAX, u64::MAX, i64::MAX, u64::MAX, Pad::Tail).count, 0);
        assert_eq!(span(1_000, 1_000, -1_000, 1_000, Pad::Head), Span { begin: 0, count: 1_000, at: 0 });
        // The window contains nothing after its end, although the trajectory continues.
        assert_eq!(span(50, 400, -100, 100, Pad::Head), Span { begin: 0, count: 50, at: 50 });
        assert_eq!(span(50, 400, -100, 100, Pad::Tail), Span { begin: 0, count: 50, at: 0 });
        assert_eq!(span(5, 9, 0, 8, Pad::Tail), Span { begin: 5, count: 4, at: 0 });
        assert_eq!(span(5, 9, 0, 8, Pad::Head), Span { begin: 5, count: 4, at: 4 });
        assert_eq!(span(5, 9, -20, 8, Pad::Head).count, 0);
        assert_eq!(span(5, 9, 20, 8, Pad::Tail).count, 0);
    }
}
