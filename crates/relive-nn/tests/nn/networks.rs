//! This crate's layers, compared with layers written with the tensors' own operations: outputs, and gradients with
//! respect to parameters and inputs.

use crate::common::{assert_close, follow, layer_norm, linear, randoms};
use relive_nn::tape::{self, Gradients, Tensor, Weights, activation};
use relive_nn::{Activation, Key, Layout, LinearInit, Network, NetworkBuilder, Params, Scratch};

const TOLERANCE: f32 = 1e-6;

/// Returns a network with `inputs` inputs and nonzero biases.
fn network(build: impl FnOnce(NetworkBuilder<'_>) -> NetworkBuilder<'_>, inputs: usize) -> (Network, Params) {
    let mut layout = Layout::new();
    let network = build(Network::builder(&mut layout, "net", inputs).init(LinearInit::PyTorch)).build();
    let mut params = layout.init(Key::from_seed(1));
    let noise = randoms(params.values().len(), 2);
    params.values_mut().iter_mut().zip(noise).for_each(|(value, noise)| *value += 0.05 * noise);
    (network, params)
}

/// Runs both networks on a batch, and compares their outputs and gradients.
fn check(
    network: &Network,
    params: &Params,
    batch: usize,
    reference: impl Fn(&Weights<'_>, Tensor<2>) -> Tensor<2>,
) {
    let x = randoms(batch * network.inputs(), 3);
    let pull = randoms(batch * network.outputs(), 4);
    let run = |ours: bool| {
        let weights = Weights::tracked(params);
        let input = tape::variable(x.clone(), [batch, network.inputs()]);
        let y = if ours { weights.run(network, input.clone()) } else { reference(&weights, input.clone()) };
        let loss = (y.clone() * tape::constant(pull.clone(), [batch, network.outputs()])).sum();
        let mut gradients = Gradients::of(&loss);
        (tape::values(y), gradients.by_weights(&weights), gradients.by_tensor(&input))
    };
    let ((y, by_weights, by_inputs), (their_y, their_weights, their_inputs)) = (run(true), run(false));
    assert_close("y", &y, &their_y, TOLERANCE);
    assert_close("by weights", &by_weights, &their_weights, 1e-5);
    assert_close("by inputs", &by_inputs, &their_inputs, 1e-5);
    assert_close("infer", network.infer(params, &x, &mut Scratch::default()), &their_y, TOLERANCE);
    let ((), closed) = network.gradient(params, &x, |_, by_outputs| by_outputs.copy_from_slice(&pull));
    assert_close("closed form", &closed, &their_weights, 1e-5);
    let mut closed = vec![f32::NAN; x.len()];
    network.input_gradient_into(params, &x, &mut closed, |_, by_outputs| by_outputs.copy_from_slice(&pull));
    assert_close("closed form by inputs", &closed, &their_inputs, 1e-5);
    let (mut scratch, mut alone) = (Scratch::default(), Scratch::default());
    let each = network.infer_each(params, &x, &mut scratch);
    for (row, outputs) in x.chunks_exact(network.inputs()).zip(each.chunks_exact(network.outputs())) {
        assert!(network.infer_each(params, row, &mut alone) == outputs, "a row depends on the others");
    }
}

#[test]
fn mlps() {
    for kind in [Activation::Identity, Activation::Relu, Activation::Elu, Activation::Tanh] {
        let (network, params) = network(|b| b.mlp(&[16, 9], kind).linear(3), 5);
        for batch in [1, 3, 32] {
            check(&network, &params, batch, |w, x| {
                let x = follow(linear(w, "net/0", x), kind);
                linear(w, "net/2", follow(linear(w, "net/1", x), kind))
            });
        }
    }
}

#[test]
fn layer_norm_mlps() {
    for last in [Activation::Identity, Activation::Elu] {
        let (network, params) = network(|b| b.layer_norm_mlp(&[16, 12, 7], last == Activation::Elu), 5);
        check(&network, &params, 11, |w, x| {
            let x = layer_norm(w, "net/1", linear(w, "net/0", x)).tanh();
            let x = follow(linear(w, "net/2", x), Activation::Elu);
            follow(linear(w, "net/3", x), last)
        });
    }
}

#[test]
fn dueling_heads() {
    for atoms in [1, 3] {
        let (network, params) = network(|b| b.mlp(&[8], Activation::Relu).duelling_atoms(&[6], 4, atoms), 5);
        check(&network, &params, 9, |w, x| {
            let x = follow(linear(w, "net/0", x), Activation::Relu);
            let stream = |name: &str| {
                let hidden = follow(linear(w, &format!("net/1/{name}/0"), x.clone()), Activation::Relu);
                linear(w, &format!("net/1/{name}/1"), hidden)
            };
            let value = stream("value").reshape([9, 1, atoms]);
            let advantage = stream("advantage").reshape([9, 4, atoms]);
            (value + advantage.clone() - advantage.mean_dim(1)).reshape([9, 4 * atoms])
        });
    }
}

#[test]
fn convolutions() {
    // 9 x 7 images with 3 channels: 2 filters of 3 x 3 at stride 2 give 4 x 3 positions; then 5 filters of 2 x 2 at
    // stride 1.
    let (network, params) = network(
        |b| {
            let b = b.image(9, 7, 3).conv(2, 3, 2).activation(Activation::Relu);
            b.conv(5, 2, 1).activation(Activation::Tanh).linear(4)
        },
        9 * 7 * 3,
    );
    let conv = |w: &Weights<'_>, name: &str, x: Tensor<4>, stride: usize| {
        let kernel: Tensor<4> = w.leaf(&format!("{name}/w"));
        let bias: Tensor<1> = w.leaf(&format!("{name}/b"));
        let options = burn_tensor::ops::ConvOptions::new([stride, stride], [0, 0], [1, 1], 1);
        burn_tensor::module::conv2d(x, kernel.permute([3, 2, 0, 1]), Some(bias), options)
    };
    for batch in [1, 6] {
        check(&network, &params, batch, |w, x| {
            let x = x.reshape([batch, 9, 7, 3]).permute([0, 3, 1, 2]);
            let x = activation::relu(conv(w, "net/0", x, 2));
            let x = conv(w, "net/1", x, 1).tanh().permute([0, 2, 3, 1]).reshape([batch, 30]);
            linear(w, "net/2", x)
        });
    }
}

#[test]
fn gradients_of_a_torso_with_two_heads_and_a_frozen_network() {
    let mut layout = Layout::new();
    let torso = Network::builder(&mut layout, "torso", 3).mlp(&[6], Activation::Tanh).build();
    let heads = ["a", "b"].map(|name| Network::builder(&mut layout, name, 6).linear(2).build());
    let params = layout.init(Key::from_seed(5));
    let mut other = Layout::new();
    let critic = Network::builder(&mut other, "critic", 2).mlp(&[4], Activation::Elu).linear(1).build();
    let frozen = other.init(Key::from_seed(6));
    let x = randoms(12, 7);
    let run = |ours: bool| {
        let (weights, fixed) = (Weights::tracked(&params), Weights::frozen(&frozen));
        let input = tape::constant(x.clone(), [4, 3]);
        let net = |w: &Weights<'_>, network: &Network, name: &str, x: Tensor<2>| {
            if ours { w.run(network, x) } else { linear(w, name, x) }
        };
        let shared =
            if ours { weights.run(&torso, input) } else { linear(&weights, "torso/0", input).tanh() };
        let a = net(&weights, &heads[0], "a/0", shared.clone());
        let b = net(&weights, &heads[1], "b/0", shared);
        let judged = match ours {
            true => fixed.run(&critic, a * b.exp()),
            false => {
                let hidden = follow(linear(&fixed, "critic/0", a * b.exp()), Activation::Elu);
                linear(&fixed, "critic/1", hidden)
            }
        };
        let mut gradients = Gradients::of(&judged.sum());
        assert!(gradients.by_weights(&fixed).iter().all(|g| *g == 0.0));
        gradients.by_weights(&weights)
    };
    assert_close("gradient", &run(true), &run(false), 1e-5);
}

#[test]
fn byte_images_are_read_like_float_images() {
    let bytes: Vec<u8> = (0..6 * 63_u32).map(|n| (n * 37 % 256).to_le_bytes()[0]).collect();
    let floats: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte) * (1.0 / 255.0)).collect();
    let convolution = network(|b| b.image(9, 7, 1).conv(3, 3, 2).activation(Activation::Relu).linear(4), 63);
    let duelling = network(|b| b.duelling(&[5], 4), 63);
    for (network, params) in [convolution, duelling] {
        let (mut of_bytes, mut of_floats) = (Scratch::default(), Scratch::default());
        let (read, expected) =
            (network.infer(&params, &bytes, &mut of_bytes), network.infer(&params, &floats, &mut of_floats));
        assert_eq!(read, expected);
        assert_eq!(network.infer_each(&params, &bytes, &mut of_bytes), expected);
        let loss = |y: &[f32], by: &mut [f32]| by.copy_from_slice(y);
        assert_eq!(network.gradient(&params, &bytes, loss).1, network.gradient(&params, &floats, loss).1);
    }
}

#[test]
#[should_panic(expected = "at least 1")]
fn a_convolution_needs_a_stride() {
    network(|b| b.image(5, 5, 2).conv(3, 2, 0), 50);
}

/// The caller may reuse the gradient of an earlier batch.
#[test]
fn the_gradient_of_an_empty_batch_is_zero() {
    let (network, params) = network(|b| b.image(5, 5, 2).conv(3, 2, 1).linear(4), 50);
    let mut gradient = vec![7.0; params.values().len()];
    network.gradient_into(&params, &[], &mut gradient, |_, _| ());
    assert_eq!(gradient, vec![0.0; params.values().len()]);
}
