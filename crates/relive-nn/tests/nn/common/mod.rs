//! Networks written with the tensors' own operations, for comparison with this crate's.

use relive_nn::tape::{Tensor, Weights, activation};
use relive_nn::{Activation, Key};

pub fn randoms(len: usize, seed: u64) -> Vec<f32> {
    let mut stream = Key::from_seed(seed).stream();
    #[allow(clippy::cast_possible_truncation)]
    (0..len).map(|_| stream.normal() as f32).collect()
}

pub fn linear(weights: &Weights<'_>, name: &str, x: Tensor<2>) -> Tensor<2> {
    let w: Tensor<2> = weights.leaf(&format!("{name}/w"));
    let b: Tensor<1> = weights.leaf(&format!("{name}/b"));
    x.matmul(w) + b.unsqueeze()
}

pub fn follow(x: Tensor<2>, kind: Activation) -> Tensor<2> {
    match kind {
        Activation::Identity => x,
        Activation::Relu => activation::relu(x),
        Activation::Elu => activation::elu(x, 1.0),
        Activation::Tanh => x.tanh(),
    }
}

pub fn layer_norm(weights: &Weights<'_>, name: &str, x: Tensor<2>) -> Tensor<2> {
    let scale: Tensor<1> = weights.leaf(&format!("{name}/scale"));
    let offset: Tensor<1> = weights.leaf(&format!("{name}/offset"));
    let centred = x.clone() - x.mean_dim(1);
    let variance = centred.clone().powi_scalar(2).mean_dim(1);
    centred / (variance + 1e-5).sqrt() * scale.unsqueeze() + offset.unsqueeze()
}

pub fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (index, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}[{index}]: {a} is not {b}");
    }
}
