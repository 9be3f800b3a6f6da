//! An LSTM between two feed-forward networks.

use std::ops::Range;

use super::kernel::{self, RequestedGradients, Run};
use super::{Lstm, LstmState, Steps};
use crate::kernels::buffers::Buffer;
use crate::kernels::inputs::Inputs;
use crate::network::pass::{Backward, Forward};
use crate::network::{Network, Scratch};
use crate::params::Params;

/// A recurrent network: a torso reads the inputs, an [`Lstm`] keeps the state, and a head reads the LSTM's outputs.
/// Sequences have the layout of the [`Lstm`].
///
/// ```
/// use relive_nn::{Activation, Key, Layout, Lstm, Network, RecurrentNetwork, RecurrentScratch, Steps};
///
/// let mut layout = Layout::new();
/// let torso = Network::builder(&mut layout, "torso", 4).mlp(&[16], Activation::Relu).build();
/// let memory = Lstm::new(&mut layout, "memory", 16, 8);
/// let head = Network::builder(&mut layout, "head", 8).linear(2).build();
/// let network = RecurrentNetwork::new(torso, memory, head);
/// let params = layout.init(Key::from_seed(1));
/// let (mut state, mut scratch) = (network.zero_state(1), RecurrentScratch::default());
/// let steps = Steps::new(1, &[true, false]);
/// let outputs = network.infer(&params, &[0.1; 8], steps, &mut state, &mut scratch);
/// assert_eq!(outputs.len(), 2 * 2);
/// ```
#[derive(Debug, Clone)]
pub struct RecurrentNetwork {
    torso: Network,
    memory: Lstm,
    head: Network,
}

/// Reused memory of [`RecurrentNetwork::infer`].
#[derive(Debug, Default, Clone)]
pub struct RecurrentScratch {
    torso: Scratch,
    memory: Scratch,
    head: Scratch,
}

impl RecurrentNetwork {
    /// Creates a network from these three parts, which share one layout.
    ///
    /// # Panics
    /// If the outputs of one part do not fit the inputs of the next.
    pub fn new(torso: Network, memory: Lstm, head: Network) -> RecurrentNetwork {
        let sizes = [torso.outputs(), memory.inputs(), memory.units(), head.inputs()];
        assert!(sizes[0] == sizes[1] && sizes[2] == sizes[3], "the sizes {sizes:?} do not form one network");
        RecurrentNetwork { torso, memory, head }
    }

    /// Returns the width of an input row.
    pub fn inputs(&self) -> usize {
        self.torso.inputs()
    }

    /// Returns the width of an output row.
    pub fn outputs(&self) -> usize {
        self.head.outputs()
    }

    /// Returns the width of a row's hidden state, which is also the width of its cell.
    pub fn units(&self) -> usize {
        self.memory.units()
    }

    /// Returns the empty state: zeros.
    pub fn zero_state(&self, batch: usize) -> LstmState {
        self.memory.zero_state(batch)
    }

    /// Computes the outputs for sequences that continue from `state`, and sets `state` to the state after the last
    /// steps.
    ///
    /// # Panics
    /// If rows, resets and state do not belong to the same batch, or the parameters have a different layout.
    pub fn infer<'a, 's>(
        &self,
        params: &Params,
        x: impl Into<Inputs<'a>>,
        steps: Steps<'_>,
        state: &mut LstmState,
        scratch: &'s mut RecurrentScratch,
    ) -> &'s [f32] {
        let features = self.torso.infer(params, x, &mut scratch.torso);
        let remembered = self.memory.infer(params, features, steps, state, &mut scratch.memory);
        self.head.infer(params, remembered, &mut scratch.head)
    }

    /// Writes the gradient with respect to this network's parameters to `gradient`, which has room for all parameters
    /// of the layout; its other numbers stay unchanged. `loss` receives the outputs for sequences that continue from
    /// `state`, and writes its gradient with respect to them; parts that it does not write are 0. No gradient flows
    /// into the state.
    ///
    /// # Panics
    /// The errors of [`infer`](Self::infer), or the gradient has a different layout.
    pub fn gradient_into<'a, R>(
        &self,
        params: &Params,
        (x, steps, state): (impl Into<Inputs<'a>>, Steps<'_>, &LstmState),
        gradient: &mut [f32],
        loss: impl FnOnce(&[f32], &mut [f32]) -> R,
    ) -> R {
        let (Self { torso, memory, head }, x) = (self, x.into());
        let batch = steps.resets.len();
        let weights = |range: Range<usize>| &params.values()[range];
        let of_torso = Forward { weights: weights(torso.range()), x, batch };
        let mut torso_trace = Buffer::take(torso.trace_len(torso.rows(x)));
        let features = torso.trace(of_torso, &mut torso_trace);
        memory.check(features, steps, state);
        let run = Run { weights: weights(memory.range()), x: features, steps };
        let mut remembered = Buffer::take(batch * memory.units());
        let mut memory_trace = Buffer::take(memory.places.trace_len(batch));
        kernel::forward(&memory.places, run, state, &mut remembered, &mut memory_trace);
        let of_head = Forward { weights: weights(head.range()), x: Inputs::Floats(&remembered), batch };
        let mut head_trace = Buffer::take(head.trace_len(batch));
        let outputs = head.trace(of_head, &mut head_trace);

        let mut by_outputs = Buffer::take(outputs.len());
        by_outputs.fill(0.0);
        let result = loss(outputs, &mut by_outputs);
        let mut by_remembered = Buffer::take(remembered.len());
        head.pull_back(Backward {
            forward: of_head,
            y: &head_trace,
            cache: &[],
            dy: &mut by_outputs,
            dweights: Some(&mut gradient[head.range()]),
            dx: Some(&mut by_remembered),
        });
        let mut by_features = Buffer::take(features.len());
        let wanted =
            RequestedGradients { dweights: Some(&mut gradient[memory.range()]), dx: Some(&mut by_features) };
        kernel::backward(&memory.places, run, &memory_trace, &by_remembered, wanted);
        torso.pull_back(Backward {
            forward: of_torso,
            y: &torso_trace,
            cache: &[],
            dy: &mut by_features,
            dweights: Some(&mut gradient[torso.range()]),
            dx: None,
        });
        result
    }
}
