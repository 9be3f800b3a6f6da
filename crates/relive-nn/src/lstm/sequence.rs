//! A sequence of steps, and what an LSTM remembers between them.

/// What an [`Lstm`](super::Lstm) remembers from step to step, [batch, units] each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LstmState {
    /// h, also its last output.
    pub hidden: Vec<f32>,
    /// c.
    pub cell: Vec<f32>,
}

/// How a sequence lies in its rows.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// Sequences side by side.
    pub batch: usize,
    /// One for each row: whether the state is forgotten before it, as at an episode's first step.
    pub resets: &'a [bool],
    /// One for each row: whether gradients end before it, as behind a burn-in; none for gradients that go back to the
    /// beginning.
    pub cuts: &'a [bool],
}

impl Steps<'_> {
    /// Sequences through which gradients go back to the beginning.
    #[must_use]
    pub fn new(batch: usize, resets: &[bool]) -> Steps<'_> {
        Steps { batch, resets, cuts: &[] }
    }
}
