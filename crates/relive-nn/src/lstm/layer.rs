use std::ops::Range;

use super::kernel::{self, LeafPlaces, LstmState, Run, Steps};
use crate::network::Scratch;
use crate::params::{Distribution, Init, Layout, Params};

/// A long short-term memory (Hochreiter and Schmidhuber 1997) as in Haiku and Sonnet: the gates are in the order input,
/// cell, forget, output, and 1 is added to the forget gate's sum.
///
/// It processes sequences of rows, in which the batch of each time step is contiguous: row `t·batch + b`. On the tape,
/// [`Weights::unroll`](crate::tape::Weights::unroll) records a whole sequence as one entry; [`infer`](Self::infer)
/// records nothing.
#[derive(Debug, Clone)]
pub struct Lstm {
    pub(super) places: LeafPlaces,
    range: Range<usize>,
}

impl Lstm {
    /// Creates an LSTM, and adds its leaves under a name: `wx` `[inputs, 4·units]`, `wh` `[units, 4·units]` and `b`
    /// `[4·units]`. Weights are initialized from a truncated normal distribution of variance 1/(inputs + units), and
    /// biases are initialized to zero.
    ///
    /// # Panics
    /// If there are no inputs or no units.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, units: usize) -> Self {
        assert!(inputs > 0 && units > 0, "an LSTM of {units} units with {inputs} inputs");
        let start = layout.len();
        let fan = inputs + units;
        let init = Init::VarianceScaling { scale: 1.0, fan, distribution: Distribution::TruncatedNormal };
        let mut leaf = |leaf: &str, shape: &[usize], init| {
            let range = layout.add(&format!("{name}/{leaf}"), shape, init);
            range.start - start..range.end - start
        };
        let by_input = leaf("wx", &[inputs, 4 * units], init);
        let by_hidden = leaf("wh", &[units, 4 * units], init);
        let bias = leaf("b", &[4 * units], Init::Constant(0.0));
        Self { places: LeafPlaces { inputs, units, by_input, by_hidden, bias }, range: start..layout.len() }
    }

    /// Returns the width of an input row.
    pub fn inputs(&self) -> usize {
        self.places.inputs
    }

    /// Returns the width of an output row.
    pub fn units(&self) -> usize {
        self.places.units
    }

    /// Returns the range of the LSTM's numbers within [`Params`].
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the empty state: zeros.
    pub fn zero_state(&self, batch: usize) -> LstmState {
        let zeros = vec![0.0; batch * self.units()];
        LstmState { hidden: zeros.clone(), cell: zeros }
    }

    /// Computes the outputs for a sequence that continues from `state`, and sets `state` to the state after the last
    /// step. This method uses no tape, as is appropriate for acting, burn-in and target networks.
    ///
    /// # Panics
    /// If rows, resets and state do not belong to the same batch, or the parameters have a different layout.
    pub fn infer<'s>(
        &self,
        params: &Params,
        x: &[f32],
        steps: Steps<'_>,
        state: &mut LstmState,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        self.check(x, steps, state);
        let rows = steps.resets.len();
        scratch.trace.resize(rows * self.units() + self.places.trace_len(rows), 0.0);
        let (y, trace) = scratch.trace.split_at_mut(rows * self.units());
        let run = Run { weights: &params.values()[self.range()], x, steps };
        kernel::forward(&self.places, run, state, y, trace);
        if let Some(last) = y.len().checked_sub(state.hidden.len()) {
            state.hidden.copy_from_slice(&y[last..]);
            state.cell.copy_from_slice(self.places.last_cell(trace, rows, steps.batch));
        }
        y
    }

    pub(super) fn check(&self, x: &[f32], steps: Steps<'_>, state: &LstmState) {
        let (rows, batch) = (steps.resets.len(), steps.batch);
        assert!(
            batch > 0 && rows.is_multiple_of(batch),
            "{rows} rows are not a whole number of batches of {batch} rows"
        );
        assert!(steps.cuts.is_empty() || steps.cuts.len() == rows, "a cut for each of {rows} rows, or none");
        assert_eq!(x.len(), rows * self.inputs(), "rows of {} inputs, and a reset for each", self.inputs());
        let sizes = (state.hidden.len(), state.cell.len());
        assert_eq!(sizes, (batch * self.units(), batch * self.units()), "a state of {batch} rows");
    }
}
