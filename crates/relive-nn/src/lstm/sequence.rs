//! Sequences of steps, and the state of an LSTM between steps.

/// The state of an [`Lstm`](super::Lstm) between steps, `[batch, units]` each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LstmState {
    /// h, which is also its last output.
    pub hidden: Vec<f32>,
    /// c.
    pub cell: Vec<f32>,
}

/// The layout of sequences in rows.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// Number of sequences side by side.
    pub batch: usize,
    /// For each row: whether the state is cleared before it, as at an episode's first step.
    pub resets: &'a [bool],
    /// For each row: whether gradients stop before it, as after a burn-in; empty if gradients flow back to the start.
    pub cuts: &'a [bool],
}

impl Steps<'_> {
    /// Sequences through which gradients flow back to the start.
    #[must_use]
    pub fn new(batch: usize, resets: &[bool]) -> Steps<'_> {
        Steps { batch, resets, cuts: &[] }
    }
}
