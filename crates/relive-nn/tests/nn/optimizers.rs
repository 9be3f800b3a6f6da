//! Optimizers, compared with PyTorch 2.15 on the same gradients.

use crate::common::assert_close;
use relive_nn::{Adam, Init, Key, Layout, Optimizer, Params, RmsProp, Sgd};

const GRADIENTS: [[f32; 3]; 4] = [[0.1, -2.0, 0.003], [0.4, 1.0, 0.0], [-0.3, 0.5, -0.02], [0.0, -0.25, 0.5]];

fn check(what: &str, make: impl Fn(&Params) -> Optimizer, recorded: [f32; 3]) {
    let mut layout = Layout::new();
    layout.add("p", &[3], Init::Constant(0.0));
    let mut params = layout.init(Key::from_seed(0));
    params.values_mut().copy_from_slice(&[1.0, -0.5, 0.25]);
    let mut optimizer = make(&params);
    for gradient in GRADIENTS {
        optimizer.step(&mut params, &gradient);
    }
    assert_close(what, params.values(), &recorded, 3e-7);
    assert_eq!((params.version(), optimizer.steps()), (4, 4));
}

#[test]
fn adam() {
    let adam = Adam { learning_rate: 0.01, ..Adam::default() };
    check("default", |params| Optimizer::adam(adam, params), [0.977_941_6, -0.485_591_7, 0.233_226_6]);
    let adam = Adam { learning_rate: 0.01, beta1: 0.0, beta2: 0.99, epsilon: 1e-3 };
    check("other", |params| Optimizer::adam(adam, params), [0.986_596_6, -0.497_945_1, 0.238_452_1]);
}

#[test]
fn rms_prop() {
    let plain = RmsProp { learning_rate: 0.01, decay: 0.9, epsilon: 1e-5, momentum: 0.0 };
    check("plain", |params| Optimizer::rms_prop(plain, params), [0.956_899_9, -0.486_721_8, 0.218_398_9]);
    let heavy = RmsProp { momentum: 0.9, ..plain };
    check("momentum", |params| Optimizer::rms_prop(heavy, params), [0.844_536_5, -0.441_599, 0.170_236]);
}

#[test]
fn sgd() {
    let plain = Sgd { learning_rate: 0.01, momentum: 0.0 };
    check("plain", |params| Optimizer::sgd(plain, params), [0.998, -0.4925, 0.245_17]);
    let heavy = Sgd { momentum: 0.9, ..plain };
    check("momentum", |params| Optimizer::sgd(heavy, params), [0.991_421, -0.465_32, 0.245_276_8]);
}

#[test]
fn gradients_are_clipped_before_use() {
    let sgd = Sgd { learning_rate: 1.0, momentum: 0.0 };
    let mut layout = Layout::new();
    layout.add("a", &[50], Init::Constant(0.0));
    layout.add("b", &[50], Init::Constant(0.0));
    let mut params = layout.init(Key::from_seed(0));
    let mut optimizer = Optimizer::sgd(sgd, &params).max_gradient_norm(4.5);
    // Two leaves with norms 3 and 4: each alone is below 4.5, but their joint norm is 5.
    let mut gradient = [0.0; 100];
    (gradient[3], gradient[99]) = (3.0, 4.0);
    assert_eq!(optimizer.step(&mut params, &gradient), 5.0);
    let mut expected = [0.0; 100];
    (expected[3], expected[99]) = (-2.7, -3.6);
    assert_close("clipped", params.values(), &expected, 1e-6);
    // A gradient within the bound is used as it is.
    (gradient[3], gradient[99]) = (0.0, 4.0);
    assert_eq!(optimizer.step(&mut params, &gradient), 4.0);
    expected[99] = -7.6;
    assert_close("not clipped", params.values(), &expected, 1e-6);
}
