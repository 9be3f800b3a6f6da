//! Heads of policies: acting and learning use the same distributions.

use crate::common::{assert_close, randoms};
use relive_nn::heads::NormalHead;
use relive_nn::tape::{self, Gradients};
use relive_nn::{Activation, Key, Layout, Network, Scratch};

#[test]
fn a_normal_head_starts_at_its_scale_and_returns_log_probabilities() {
    let head = NormalHead { init_scale: 0.7, ..NormalHead::new(2) };
    let mut layout = Layout::new();
    let builder = Network::builder(&mut layout, "policy", 3).mlp(&[32], Activation::Elu);
    let network = head.layer(builder).build();
    let params = layout.init(Key::from_seed(1));
    let mut scratch = Scratch::default();
    let row = network.infer(&params, &[1.0, -1.0, 0.5], &mut scratch).to_vec();
    let policy = head.on_tape(tape::constant(row.clone(), [1, 4]));
    let (mean, stddev) = (tape::values(policy.mean.clone()), tape::values(policy.stddev.clone()));
    assert_close("mean", &mean, &[0.0, 0.0], 0.05);
    assert_close("stddev", &stddev, &[0.7, 0.7], 0.05);

    let mut stream = Key::from_seed(2).stream();
    let (mut action, mut mode) = ([0.0; 2], [0.0; 2]);
    let log_prob = head.sample(&row, &mut stream, &mut action);
    let on_tape = policy.log_prob(&tape::constant(action.to_vec(), [1, 1, 2]));
    assert_close("log_prob", &[log_prob], &tape::values(on_tape), 1e-5);
    head.mode(&row, &mut mode);
    assert_eq!(mode, [mean[0], mean[1]]);

    let wanted =
        (0..20_000).map(|_| f64::from(head.sample(&row, &mut stream, &mut action))).sum::<f64>() / -20_000.0;
    let entropy = f64::from(tape::values(policy.entropy())[0]);
    assert!((entropy - wanted).abs() < 0.03, "{entropy}, not {wanted}");
}

#[test]
fn a_fixed_scale_trains_only_the_means() {
    let head = NormalHead { fixed_scale: true, tanh_mean: true, ..NormalHead::new(2) };
    let outputs = tape::variable(randoms(12, 1), [3, 4]);
    let policy = head.on_tape(outputs.clone());
    assert_eq!(tape::values(policy.stddev.clone()), [0.3; 6]);
    let x = tape::constant(randoms(6, 2), [1, 3, 2]);
    let slope = Gradients::of(&policy.log_prob(&x).sum()).by_tensor(&outputs);
    for row in slope.chunks_exact(4) {
        assert!(row[0] != 0.0 && row[1] != 0.0 && row[2] == 0.0 && row[3] == 0.0, "{row:?}");
    }
}

#[test]
fn distributions_and_gradients_match_the_tape() {
    let outputs = randoms(5 * 4, 3);
    for (tanh_mean, fixed_scale) in [(false, false), (true, false), (false, true)] {
        let head = NormalHead { tanh_mean, fixed_scale, init_scale: 0.5, ..NormalHead::new(2) };
        let on_tape = tape::variable(outputs.clone(), [5, 4]);
        let policy = head.on_tape(on_tape.clone());
        let (mut means, mut stddevs) = (Vec::new(), Vec::new());
        head.distributions(&outputs, &mut means, &mut stddevs);
        assert_close("means", &means, &tape::values(policy.mean.clone()), 1e-6);
        assert_close("stddevs", &stddevs, &tape::values(policy.stddev.clone()), 1e-6);
        // Any function of both suffices.
        let loss = policy.mean.powi_scalar(2).sum() + policy.stddev.powi_scalar(3).sum();
        let expected = Gradients::of(&loss).by_tensor(&on_tape);
        let by_means: Vec<f32> = means.iter().map(|mean| 2.0 * mean).collect();
        let by_stddevs: Vec<f32> = stddevs.iter().map(|stddev| 3.0 * stddev * stddev).collect();
        let mut found = [9.0; 20];
        head.pull_back(&outputs, &by_means, &by_stddevs, &mut found);
        assert_close("gradient", &found, &expected, 1e-5);
    }
}
