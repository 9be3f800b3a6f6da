//! The LSTM, compared step by step with one written with the tensors' own operations.

use crate::common::{assert_close, randoms};
use relive_nn::tape::{self, Gradients, Tensor, Weights, activation};
use relive_nn::{
    Activation, Key, Layout, Lstm, LstmState, Network, Params, RecurrentNetwork, RecurrentScratch, Scratch,
    Steps,
};

const INPUTS: usize = 3;
const UNITS: usize = 5;
const BATCH: usize = 6;
const TIME: usize = 7;

fn lstm() -> (Lstm, Params) {
    let mut layout = Layout::new();
    layout.add("something/else", &[4], relive_nn::Init::Constant(1.0));
    let lstm = Lstm::new(&mut layout, "lstm", INPUTS, UNITS);
    let mut params = layout.init(Key::from_seed(1));
    let noise = randoms(params.values().len(), 2);
    params.values_mut().iter_mut().zip(noise).for_each(|(value, noise)| *value += 0.1 * noise);
    (lstm, params)
}

fn state() -> LstmState {
    LstmState { hidden: randoms(BATCH * UNITS, 5), cell: randoms(BATCH * UNITS, 6) }
}

/// Resets at the first step and within sequences.
fn resets() -> Vec<bool> {
    (0..BATCH * TIME).map(|row| row == 1 || row % 11 == 9).collect()
}

fn step_by_step(
    w: &Weights<'_>,
    x: &Tensor<2>,
    resets: &[bool],
    state: &LstmState,
) -> (Tensor<2>, LstmState) {
    let (wx, wh, b): (Tensor<2>, Tensor<2>, Tensor<1>) =
        (w.leaf("lstm/wx"), w.leaf("lstm/wh"), w.leaf("lstm/b"));
    let shape = [BATCH, UNITS];
    let mut h = tape::constant(state.hidden.clone(), shape);
    let mut c = tape::constant(state.cell.clone(), shape);
    let mut outputs = Vec::new();
    for (t, resets) in resets.chunks_exact(BATCH).enumerate() {
        let kept = resets.iter().map(|reset| if *reset { 0.0 } else { 1.0 }).collect();
        let kept: Tensor<2> = tape::constant(kept, [BATCH, 1]);
        let x = x.clone().slice([t * BATCH..(t + 1) * BATCH, 0..INPUTS]);
        let sums = x.matmul(wx.clone()) + (h * kept.clone()).matmul(wh.clone()) + b.clone().unsqueeze();
        let gate = |n: usize| sums.clone().slice([0..BATCH, n * UNITS..(n + 1) * UNITS]);
        let (input, candidate) = (activation::sigmoid(gate(0)), gate(1).tanh());
        let (forget, output) = (activation::sigmoid(gate(2) + 1.0), activation::sigmoid(gate(3)));
        c = forget * (c * kept) + input * candidate;
        h = output * c.clone().tanh();
        outputs.push(h.clone());
    }
    let end = LstmState { hidden: tape::values(h), cell: tape::values(c) };
    (Tensor::cat(outputs, 0), end)
}

#[test]
fn an_lstm_over_a_sequence_matches_its_single_steps() {
    let (lstm, params) = lstm();
    let (x, pull) = (randoms(TIME * BATCH * INPUTS, 3), randoms(TIME * BATCH * UNITS, 4));
    let (resets, begin) = (resets(), state());
    let steps = Steps::new(BATCH, &resets);
    let run = |ours: bool| {
        let weights = Weights::tracked(&params);
        let input = tape::variable(x.clone(), [TIME * BATCH, INPUTS]);
        let y = match ours {
            true => weights.unroll(&lstm, input.clone(), steps, &begin),
            false => step_by_step(&weights, &input, &resets, &begin).0,
        };
        let mut gradients =
            Gradients::of(&(y.clone() * tape::constant(pull.clone(), [TIME * BATCH, UNITS])).sum());
        (tape::values(y), gradients.by_weights(&weights), gradients.by_tensor(&input))
    };
    let ((y, by_weights, by_inputs), (their_y, their_weights, their_inputs)) = (run(true), run(false));
    assert_close("y", &y, &their_y, 1e-6);
    assert_close("by weights", &by_weights, &their_weights, 1e-5);
    assert_close("by inputs", &by_inputs, &their_inputs, 1e-5);
}

#[test]
fn inference_continues_from_its_state() {
    let (lstm, params) = lstm();
    let (x, resets) = (randoms(TIME * BATCH * INPUTS, 3), resets());
    let weights = Weights::frozen(&params);
    let (y, end) =
        step_by_step(&weights, &tape::constant(x.clone(), [TIME * BATCH, INPUTS]), &resets, &state());
    let y = tape::values(y);
    let (mut whole, mut scratch) = (state(), Scratch::default());
    let steps = Steps::new(BATCH, &resets);
    assert_close("whole", lstm.infer(&params, &x, steps, &mut whole, &mut scratch), &y, 1e-6);
    assert_close("hidden", &whole.hidden, &end.hidden, 1e-6);
    assert_close("cell", &whole.cell, &end.cell, 1e-6);

    let mut stepwise = state();
    for t in 0..TIME {
        let (from, to) = (t * BATCH, (t + 1) * BATCH);
        let steps = Steps::new(BATCH, &resets[from..to]);
        let found = lstm.infer(&params, &x[from * INPUTS..to * INPUTS], steps, &mut stepwise, &mut scratch);
        assert_close("step", found, &y[from * UNITS..to * UNITS], 1e-6);
    }
    assert_close("stepwise", &stepwise.cell, &whole.cell, 1e-6);

    // A single sequence, as in an actor.
    let mut alone =
        LstmState { hidden: state().hidden[..UNITS].to_vec(), cell: state().cell[..UNITS].to_vec() };
    for t in 0..TIME {
        let row = t * BATCH;
        let steps = Steps::new(1, &resets[row..=row]);
        let found =
            lstm.infer(&params, &x[row * INPUTS..(row + 1) * INPUTS], steps, &mut alone, &mut scratch);
        assert_close("alone", found, &y[row * UNITS..(row + 1) * UNITS], 1e-6);
    }
}

#[test]
fn a_recurrent_network_matches_its_parts_on_the_tape() {
    let mut layout = Layout::new();
    let torso = Network::builder(&mut layout, "torso", INPUTS).mlp(&[4], Activation::Tanh).build();
    let lstm = Lstm::new(&mut layout, "memory", 4, UNITS);
    let head = Network::builder(&mut layout, "head", UNITS).mlp(&[3], Activation::Tanh).linear(2).build();
    let params = layout.init(Key::from_seed(3));
    let (x, pull) = (randoms(TIME * BATCH * INPUTS, 3), randoms(TIME * BATCH * 2, 4));
    let (resets, begin) = (resets(), state());
    let steps = Steps::new(BATCH, &resets);

    let weights = Weights::tracked(&params);
    let features = weights.run(&torso, tape::constant(x.clone(), [TIME * BATCH, INPUTS]));
    let y = weights.run(&head, weights.unroll(&lstm, features, steps, &begin));
    let loss = (y.clone() * tape::constant(pull.clone(), [TIME * BATCH, 2])).sum();
    let expected = (tape::values(y), Gradients::of(&loss).by_weights(&weights));

    let network = RecurrentNetwork::new(torso, lstm, head);
    let mut gradient = vec![f32::NAN; params.values().len()];
    let outputs = network.gradient_into(&params, (&x, steps, &begin), &mut gradient, |outputs, by| {
        by.copy_from_slice(&pull);
        outputs.to_vec()
    });
    assert_close("outputs", &outputs, &expected.0, 1e-6);
    assert_close("gradient", &gradient, &expected.1, 1e-5);
    let (mut state, mut scratch) = (begin, RecurrentScratch::default());
    let inferred = network.infer(&params, &x, steps, &mut state, &mut scratch);
    assert_close("inferred", inferred, &expected.0, 1e-6);
}

/// A sequence after a cut has the same gradients as a separate sequence that starts with the state at the cut.
#[test]
fn gradients_stop_at_cuts() {
    const AT: usize = 3;
    let (lstm, params) = lstm();
    let (x, pull) = (randoms(TIME * BATCH * INPUTS, 3), randoms(TIME * BATCH * UNITS, 4));
    let (resets, begin) = (vec![false; TIME * BATCH], state());
    let cuts: Vec<bool> = (0..TIME * BATCH).map(|row| row / BATCH == AT).collect();
    let (front, first) = (AT * BATCH, TIME * BATCH);
    let gradient = |from: usize, to: usize, steps: Steps<'_>, state: &LstmState| {
        let weights = Weights::tracked(&params);
        let input = tape::constant(x[from * INPUTS..to * INPUTS].to_vec(), [to - from, INPUTS]);
        let y = weights.unroll(&lstm, input, steps, state);
        let by = tape::constant(pull[from * UNITS..to * UNITS].to_vec(), [to - from, UNITS]);
        Gradients::of(&(y * by).sum()).by_weights(&weights)
    };
    let whole = gradient(0, first, Steps { cuts: &cuts, ..Steps::new(BATCH, &resets) }, &begin);
    let mut middle = begin.clone();
    let steps = Steps::new(BATCH, &resets[..front]);
    lstm.infer(&params, &x[..front * INPUTS], steps, &mut middle, &mut Scratch::default());
    let before = gradient(0, front, steps, &begin);
    let behind = gradient(front, first, Steps::new(BATCH, &resets[front..]), &middle);
    let sum: Vec<f32> = before.iter().zip(&behind).map(|(a, b)| a + b).collect();
    assert_close("gradient", &whole, &sum, 1e-5);
}
