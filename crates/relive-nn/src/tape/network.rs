use std::sync::Arc;

use burn_tensor::Tensor;

use super::node::{Entry, Op, Recorded, record};
use super::weights::Weights;
use crate::kernels::buffers::Buffer;
use crate::kernels::inputs::Inputs;
use crate::network::Network;
use crate::network::pass::{Backward, Forward};

impl Weights<'_> {
    /// Returns the outputs of a network for rows of inputs.
    ///
    /// # Panics
    /// If the rows do not have the width of the network's inputs, or the parameters have a different layout.
    pub fn run(&self, network: &Network, x: Tensor<2>) -> Tensor<2> {
        record(Arc::new(network.clone()), x, self.block(network.range()), |x, weights| {
            let x = Inputs::Floats(x);
            let batch = network.rows(x);
            let mut trace = Buffer::take(network.trace_len(batch));
            let y = network.trace(Forward { weights, x, batch }, &mut trace).to_vec();
            Recorded { y, shape: [batch, network.outputs()], trace }
        })
    }
}

impl Op for Network {
    fn pull_back(&self, entry: Entry<'_>) {
        let Entry { x, weights, trace, dy, dweights, dx } = entry;
        let x = Inputs::Floats(x);
        let forward = Forward { weights, x, batch: self.rows(x) };
        Network::pull_back(self, Backward { forward, y: trace, cache: &[], dy, dweights, dx });
    }
}
