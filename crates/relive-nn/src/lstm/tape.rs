use std::sync::Arc;

use super::kernel::{self, RequestedGradients, Run};
use super::{Lstm, LstmState, Steps};
use crate::kernels::buffers::Buffer;
use crate::tape::node::{Entry, Op, Recorded, record};
use crate::tape::{Tensor, Weights};

/// A sequence on the tape.
#[derive(Debug)]
struct Unrolled {
    lstm: Lstm,
    batch: usize,
    resets: Vec<bool>,
    cuts: Vec<bool>,
}

impl Weights<'_> {
    /// Returns the outputs of an LSTM for a sequence that continues from `state`, which is a constant: backpropagation
    /// through time ends there, and at resets.
    ///
    /// # Panics
    /// If rows, resets and state do not belong to the same batch, or the parameters have a different layout.
    pub fn unroll(&self, lstm: &Lstm, x: Tensor<2>, steps: Steps<'_>, state: &LstmState) -> Tensor<2> {
        let op = Unrolled {
            lstm: lstm.clone(),
            batch: steps.batch,
            resets: steps.resets.to_vec(),
            cuts: steps.cuts.to_vec(),
        };
        record(Arc::new(op), x, self.block(lstm.range()), |x, weights| {
            lstm.check(x, steps, state);
            let rows = steps.resets.len();
            let mut y = vec![0.0; rows * lstm.units()];
            let mut trace = Buffer::take(lstm.places.trace_len(rows));
            kernel::forward(&lstm.places, Run { weights, x, steps }, state, &mut y, &mut trace);
            Recorded { y, shape: [rows, lstm.units()], trace }
        })
    }
}

impl Op for Unrolled {
    fn pull_back(&self, entry: Entry<'_>) {
        let Entry { x, weights, trace, dy, dweights, dx } = entry;
        let steps = Steps { batch: self.batch, resets: &self.resets, cuts: &self.cuts };
        kernel::backward(
            &self.lstm.places,
            Run { weights, x, steps },
            trace,
            dy,
            RequestedGradients { dweights, dx },
        );
    }
}
