//! Many items of the same form.

/// Items that are windows of the history: for each end the same number of steps, of the same columns.
///
/// ```
/// use relive_client::Windows;
///
/// // The newest step as an item, and the one before, each without a leading dimension.
/// let steps = Windows::steps(&[-2, -1]);
/// // The newest three steps as one item of columns 0 and 2.
/// let window = Windows::of(3, &[-1]).columns(&[0, 2]);
/// # let _ = (steps, window);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a> {
    pub(super) ends: &'a [i64],
    pub(super) length: usize,
    pub(super) squeeze: bool,
    pub(super) columns: Option<&'a [usize]>,
}

impl<'a> Windows<'a> {
    /// One item for each of `ends`: the positions of its last step in the history, where -1 is the newest. An item has
    /// `length` steps, at least 1, along a leading dimension.
    pub fn of(length: usize, ends: &'a [i64]) -> Windows<'a> {
        Windows { ends, length, squeeze: false, columns: None }
    }

    /// One item for each of `steps`: a single step without a leading dimension.
    pub fn steps(steps: &'a [i64]) -> Windows<'a> {
        Windows { ends: steps, length: 1, squeeze: true, columns: None }
    }

    /// Takes the columns of these numbers, in this order, instead of all.
    #[must_use]
    pub fn columns(mut self, columns: &'a [usize]) -> Windows<'a> {
        self.columns = Some(columns);
        self
    }
}
