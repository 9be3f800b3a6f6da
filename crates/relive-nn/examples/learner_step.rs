//! Times a learner's step, from a batch in host memory to changed parameters. `benches/learner/learner_step.py`
//! compares it with PyTorch.
//!
//!     cargo run --release -p relive-nn --example learner_step -- mlp64 2000
//!
//! Prints the median and the tenth percentile of the steps' times, in microseconds.

use std::hint::black_box;
use std::time::Instant;

use relive_nn::losses::{self, Selected};
use relive_nn::tape::{self, Gradients, Weights};
use relive_nn::{Activation, Adam, Key, Layout, Lstm, Network, Optimizer, Params, Scratch, Steps, Stream};

// The same allocator as in the binary and the Python module.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of batches in host memory, which steps use cyclically.
const BATCHES: usize = 8;

type Step = Box<dyn FnMut(usize)>;

#[allow(clippy::print_stdout)]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "mlp64".to_owned());
    let steps = arguments.next().and_then(|steps| steps.parse().ok()).unwrap_or(1000);
    let mut times = time(steps, workload(&name));
    times.sort_by(f64::total_cmp);
    println!("{:.3} {:.3}", times[steps / 2], times[steps / 10]);
}

fn workload(name: &str) -> Step {
    let small = Values { inputs: 8, hidden: 64, actions: 4, batch: 32 };
    let large = Values { inputs: 32, hidden: 256, actions: 8, batch: 256 };
    match name {
        "mlp64" => mlp(small, false),
        "mlp64-tape" => mlp(small, true),
        "mlp256" => mlp(large, false),
        "mlp256-tape" => mlp(large, true),
        "conv" => conv(),
        "lstm" => lstm(),
        "act64" => act(),
        other => panic!("no workload is named {other}"),
    }
}

fn time(steps: usize, mut step: Step) -> Vec<f64> {
    let mut timed = |index: usize| {
        let begin = Instant::now();
        step(index % BATCHES);
        begin.elapsed().as_secs_f64() * 1e6
    };
    (0..steps / 5 + 2).for_each(|index| {
        timed(index);
    });
    (0..steps).map(timed).collect()
}

#[allow(clippy::cast_possible_truncation)]
fn normals(stream: &mut Stream, len: usize) -> Vec<f32> {
    (0..len).map(|_| stream.normal() as f32).collect()
}

fn batches<T>(make: impl FnMut(&mut Stream) -> T) -> Vec<T> {
    let mut stream = Key::from_seed(1).child("batches").stream();
    let mut make = make;
    (0..BATCHES).map(|_| make(&mut stream)).collect()
}

#[derive(Clone, Copy)]
struct Values {
    inputs: usize,
    hidden: usize,
    actions: usize,
    batch: usize,
}

struct Batch {
    x: Vec<f32>,
    actions: Vec<usize>,
    targets: Vec<f32>,
}

/// Forward pass, Huber loss of the actions taken, backward pass, Adam.
fn mlp(sizes: Values, on_tape: bool) -> Step {
    let Values { inputs, hidden, actions, batch } = sizes;
    let mut layout = Layout::new();
    let builder = Network::builder(&mut layout, "q", inputs);
    let network = builder.mlp(&[hidden, hidden], Activation::Relu).linear(actions).build();
    let mut params = layout.init(Key::from_seed(1));
    let mut optimizer = Optimizer::adam(Adam::default(), &params);
    let weights = vec![1.0; batch];
    let data = batches(|stream| Batch {
        x: normals(stream, batch * inputs),
        actions: (0..batch).map(|_| stream.below(actions)).collect(),
        targets: normals(stream, batch),
    });
    Box::new(move |index| {
        let Batch { x, actions, targets } = &data[index];
        let selected = Selected { actions, weights: &weights };
        let gradient = if on_tape {
            huber_on_tape(&network, &params, &data[index])
        } else {
            network.gradient(&params, x, |q, by_q| losses::q_loss(q, selected, targets, 1.0, by_q)).1
        };
        optimizer.step(&mut params, &gradient);
    })
}

fn huber_on_tape(network: &Network, params: &Params, batch: &Batch) -> Vec<f32> {
    let rows = batch.targets.len();
    let weights = Weights::tracked(params);
    let q = weights.run(network, tape::constant(batch.x.clone(), [rows, network.inputs()]));
    let taken = q.gather(1, tape::indices(&batch.actions).unsqueeze_dim(1));
    let error = (tape::constant(batch.targets.clone(), [rows, 1]) - taken).abs();
    let near = error.clone().clamp_max(1.0);
    let loss = (near.clone().powi_scalar(2) * 0.5 + (error - near)).mean();
    Gradients::of(&loss).by_weights(&weights)
}

/// Returns a step of the Nature DQN on images of bytes: target network forward, online network forward and backward,
/// Huber loss, Adam.
fn conv() -> Step {
    const BATCH: usize = 32;
    const PICTURE: usize = 84 * 84 * 4;
    let mut layout = Layout::new();
    let builder = Network::builder(&mut layout, "q", PICTURE).image(84, 84, 4).nature_torso();
    let network = builder.mlp(&[512], Activation::Relu).linear(6).build();
    let mut params = layout.init(Key::from_seed(1));
    let target = params.clone();
    let mut optimizer = Optimizer::adam(Adam::default(), &params);
    let pictures = |stream: &mut Stream| -> Vec<u8> {
        (0..BATCH * PICTURE).map(|_| stream.bits().to_le_bytes()[0]).collect()
    };
    let data = batches(|stream| {
        let actions: Vec<usize> = (0..BATCH).map(|_| stream.below(6)).collect();
        (pictures(stream), pictures(stream), actions, normals(stream, BATCH))
    });
    let mut scratch = Scratch::default();
    Box::new(move |index| {
        let (before, after, actions, rewards) = &data[index];
        let values = network.infer(&target, after, &mut scratch);
        let targets = losses::double_q_targets(rewards, &[0.99; BATCH], values, values);
        let selected = Selected { actions, weights: &[1.0; BATCH] };
        let loss = |q: &[f32], by_q: &mut [f32]| losses::q_loss(q, selected, &targets, 1.0, by_q);
        let (_, gradient) = network.gradient(&params, before, loss);
        optimizer.step(&mut params, &gradient);
    })
}

/// An LSTM and a linear head over a sequence, mean squared error, backpropagation through the whole sequence, Adam.
fn lstm() -> Step {
    const TIME: usize = 20;
    const BATCH: usize = 32;
    const INPUTS: usize = 64;
    const UNITS: usize = 128;
    const OUTPUTS: usize = 8;
    const ROWS: usize = TIME * BATCH;
    let mut layout = Layout::new();
    let lstm = Lstm::new(&mut layout, "lstm", INPUTS, UNITS);
    let head = Network::builder(&mut layout, "head", UNITS).linear(OUTPUTS).build();
    let mut params = layout.init(Key::from_seed(1));
    let mut optimizer = Optimizer::adam(Adam::default(), &params);
    let state = lstm.zero_state(BATCH);
    let data = batches(|stream| (normals(stream, ROWS * INPUTS), normals(stream, ROWS * OUTPUTS)));
    Box::new(move |index| {
        let (x, y) = &data[index];
        let weights = Weights::tracked(&params);
        let steps = Steps::new(BATCH, &[false; ROWS]);
        let hidden = weights.unroll(&lstm, tape::constant(x.clone(), [ROWS, INPUTS]), steps, &state);
        let error = weights.run(&head, hidden) - tape::constant(y.clone(), [ROWS, OUTPUTS]);
        let gradient = Gradients::of(&error.powi_scalar(2).mean()).by_weights(&weights);
        drop(weights);
        optimizer.step(&mut params, &gradient);
    })
}

/// 100 greedy actions, one by one.
fn act() -> Step {
    let mut layout = Layout::new();
    let network = Network::builder(&mut layout, "q", 8).mlp(&[64, 64], Activation::Relu).linear(4).build();
    let params = layout.init(Key::from_seed(1));
    let mut scratch = Scratch::default();
    let data = batches(|stream| normals(stream, 8));
    Box::new(move |index| {
        for offset in 0..100 {
            let x = black_box(&data[(index + offset) % BATCHES]);
            black_box(losses::argmax(network.infer(&params, x, &mut scratch)));
        }
    })
}
