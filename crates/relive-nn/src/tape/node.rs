//! A custom operation as one entry on burn's tape: a function from rows and a block of parameters to rows.

use std::fmt::Debug;
use std::sync::Arc;

use burn_dispatch::backends::autodiff::checkpoint::base::Checkpointer;
use burn_dispatch::backends::autodiff::checkpoint::strategy::NoCheckpointing;
use burn_dispatch::backends::autodiff::grads::Gradients;
use burn_dispatch::backends::autodiff::ops::{Backward, Ops, OpsKind};
use burn_dispatch::backends::flex::FlexTensor;
use burn_dispatch::backends::{Autodiff, Flex};
use burn_tensor::{Float, Shape, Tensor, TensorData};

use crate::kernels::buffers::Buffer;

type OnTape = Autodiff<Flex>;

/// The backward pass of an operation.
pub(crate) trait Op: Debug + Send + Sync + 'static {
    fn pull_back(&self, entry: Entry<'_>);
}

/// The inputs of an operation's backward pass.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weights: &'a [f32],
    /// The values that the forward pass kept.
    pub(crate) trace: &'a [f32],
    /// The gradient with respect to the output; the pass may overwrite it.
    pub(crate) dy: &'a mut [f32],
    pub(crate) dweights: Option<&'a mut [f32]>,
    pub(crate) dx: Option<&'a mut [f32]>,
}

/// The results of an operation's forward pass.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) y: Vec<f32>,
    pub(crate) shape: [usize; 2],
    pub(crate) trace: Buffer,
}

/// Runs an operation and records it on the tape, unless none of its inputs is tracked.
pub(crate) fn record(
    op: Arc<dyn Op>,
    x: Tensor<2>,
    weights: Tensor<1>,
    forward: impl FnOnce(&[f32], &[f32]) -> Recorded,
) -> Tensor<2> {
    let tracked = x.is_tracked() || weights.is_tracked();
    let (x, x_node) = on_tape(x).into_parts();
    let (weights, weights_node) = on_tape(weights).into_parts();
    let (x, weights) = (x.to_contiguous(), weights.to_contiguous());
    let Recorded { y, shape, trace } = forward(numbers(&x), numbers(&weights));
    if !tracked {
        return super::constant(y, shape);
    }
    let y = flat(y, &shape);
    let saved = Arc::new(Saved { op, x, weights, trace });
    let nodes = Node.prepare::<NoCheckpointing>([x_node, weights_node]);
    let recorded = match nodes.compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(saved, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    };
    Tensor::from_primitive::<OnTape>(recorded)
}

fn on_tape<const D: usize>(tensor: Tensor<D>) -> <Float as burn_tensor::BackendPrimitive<OnTape>>::Primitive {
    tensor.try_into_primitive::<OnTape>().expect("tensors of the tape are made by this crate's functions")
}

fn flat(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, Shape::from(shape.to_vec())))
}

/// Returns the numbers of a contiguous tensor of f32.
fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous tensor of f32")
}

#[derive(Debug)]
struct Saved {
    op: Arc<dyn Op>,
    x: FlexTensor,
    weights: FlexTensor,
    trace: Buffer,
}

#[derive(Debug)]
struct Node;

impl Backward<Flex, 2> for Node {
    type State = Arc<Saved>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Saved { op, x, weights, trace } = &*ops.state;
        let incoming = grads.consume::<Flex>(&ops.node).to_contiguous();
        let mut dy = Buffer::take(numbers(&incoming).len());
        dy.copy_from_slice(numbers(&incoming));
        let [by_x, by_weights] = ops.parents;
        let mut dx = by_x.as_ref().map(|_| vec![0.0; numbers(x).len()]);
        let mut dweights = by_weights.as_ref().map(|_| vec![0.0; numbers(weights).len()]);
        op.pull_back(Entry {
            x: numbers(x),
            weights: numbers(weights),
            trace,
            dy: &mut dy,
            dweights: dweights.as_deref_mut(),
            dx: dx.as_deref_mut(),
        });
        for (parent, gradient, like) in [(by_x, dx, x), (by_weights, dweights, weights)] {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, flat(gradient, like.layout().shape()));
            }
        }
    }
}
