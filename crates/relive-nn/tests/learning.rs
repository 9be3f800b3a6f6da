//! A learner's steps learn, are repeatable, can be resumed, and do not use more and more memory.

use relive_nn::losses::{self, Selected};
use relive_nn::tape::{self, Gradients, Weights};
use relive_nn::{Activation, Adam, Key, Layout, Network, Optimizer, Params, RmsProp, Scratch, Sgd, Stream};

const BATCH: usize = 32;
const STATES: usize = 8;

/// Q-learning of a walk along a line: the actions are left and right; the right end gives a reward of 1 and ends the
/// episode.
struct Learner {
    network: Network,
    params: Params,
    target: Params,
    optimizer: Optimizer,
    stream: Stream,
    scratch: Scratch,
}

impl Learner {
    fn new(seed: u64) -> Self {
        let mut layout = Layout::new();
        let network = Network::builder(&mut layout, "q", STATES)
            .mlp(&[32], Activation::Relu)
            .duelling(&[16], 2)
            .build();
        let key = Key::from_seed(seed);
        let params = layout.init(key.child("weights"));
        let optimizer = Optimizer::adam(Adam { learning_rate: 3e-3, ..Adam::default() }, &params);
        let optimizer = optimizer.max_gradient_norm(10.0);
        let (target, stream) = (params.clone(), key.child("batches").stream());
        Self { network, params, target, optimizer, stream, scratch: Scratch::default() }
    }

    fn step(&mut self, on_tape: bool) -> f32 {
        let states: Vec<usize> = (0..BATCH).map(|_| self.stream.below(STATES)).collect();
        let actions: Vec<usize> = (0..BATCH).map(|_| self.stream.below(2)).collect();
        let next: Vec<usize> = states.iter().zip(&actions).map(|(s, a)| (s + a).max(1) - (1 - a)).collect();
        let end = |s: &usize| if *s == STATES { 1.0 } else { 0.0 };
        let rewards: Vec<f32> = next.iter().map(end).collect();
        let discounts: Vec<f32> = next.iter().map(|s| 0.9 * (1.0 - end(s))).collect();
        let (x, after) = (one_hot(&states), one_hot(&next));
        let values = self.network.infer(&self.target, &after, &mut self.scratch).to_vec();
        let selector = self.network.infer(&self.params, &after, &mut self.scratch);
        let targets = losses::double_q_targets(&rewards, &discounts, &values, selector);
        let selected = Selected { actions: &actions, weights: &[1.0; BATCH] };
        let (loss, gradient) = if on_tape {
            self.on_tape(&x, selected, &targets)
        } else {
            self.network
                .gradient(&self.params, &x, |q, by_q| losses::q_loss(q, selected, &targets, 1.0, by_q).loss)
        };
        self.optimizer.step(&mut self.params, &gradient);
        if self.optimizer.steps().is_multiple_of(20) {
            self.target.copy_from(&self.params);
        }
        loss
    }

    fn on_tape(&self, x: &[f32], selected: Selected<'_>, targets: &[f32]) -> (f32, Vec<f32>) {
        let weights = Weights::tracked(&self.params);
        let q = weights.run(&self.network, tape::constant(x.to_vec(), [BATCH, STATES]));
        let taken = q.gather(1, tape::indices(selected.actions).unsqueeze_dim(1));
        let error = (tape::constant(targets.to_vec(), [BATCH, 1]) - taken).abs();
        let near = error.clone().clamp_max(1.0);
        let loss = (near.clone().powi_scalar(2) * 0.5 + (error - near)).mean();
        let gradient = Gradients::of(&loss).by_weights(&weights);
        (tape::values(loss)[0], gradient)
    }
}

fn one_hot(states: &[usize]) -> Vec<f32> {
    let mut rows = vec![0.0; states.len() * STATES];
    for (row, state) in states.iter().enumerate().filter(|(_, state)| **state < STATES) {
        rows[row * STATES + state] = 1.0;
    }
    rows
}

#[test]
fn q_values_converge_to_the_optimal_policy() {
    for on_tape in [false, true] {
        let mut learner = Learner::new(1);
        (0..1500).for_each(|_| {
            learner.step(on_tape);
        });
        for state in 0..STATES {
            let q = learner.network.infer(&learner.params, &one_hot(&[state]), &mut learner.scratch);
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
            let best = 0.9_f32.powi((STATES - 1 - state) as i32);
            assert!((q[1] - best).abs() < 0.05, "state {state}: {q:?}, not {best}");
            assert!(q[0] < q[1], "state {state}: {q:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_thread() {
    let bytes = |seed| {
        std::thread::spawn(move || {
            let mut learner = Learner::new(seed);
            (0..50).for_each(|_| {
                learner.step(true);
            });
            learner.params.as_bytes().to_vec()
        })
    };
    let [a, b, other] = [1, 1, 2].map(bytes).map(|thread| thread.join().unwrap());
    assert_eq!(a, b);
    assert_ne!(a, other);
}

#[test]
fn a_resumed_learner_is_bit_identical_to_an_uninterrupted_one() {
    let mut whole = Learner::new(1);
    (0..30).for_each(|_| {
        whole.step(false);
    });
    let (params, target) = (whole.params.as_bytes().to_vec(), whole.target.as_bytes().to_vec());
    let (optimizer, stream) = (whole.optimizer.to_bytes(), whole.stream.to_bytes());
    let mut resumed = Learner::new(99);
    resumed.params.set_bytes(&params, whole.params.version()).unwrap();
    resumed.target.set_bytes(&target, whole.target.version()).unwrap();
    resumed.optimizer.set_bytes(&optimizer).unwrap();
    resumed.stream = Stream::from_bytes(&stream).unwrap();
    for _ in 0..30 {
        assert_eq!(whole.step(false).to_bits(), resumed.step(false).to_bits());
    }
    assert_eq!(whole.params.as_bytes(), resumed.params.as_bytes());
    assert_eq!(whole.params.version(), resumed.params.version());
    assert_eq!(whole.optimizer.to_bytes(), resumed.optimizer.to_bytes());
}

#[test]
fn foreign_and_damaged_optimizer_states_are_refused() {
    let params = Learner::new(1).params;
    let mut adam = Optimizer::adam(Adam::default(), &params);
    let before = adam.clone();
    let bytes = adam.to_bytes();
    let others = [
        Optimizer::rms_prop(RmsProp::default(), &params),
        Optimizer::sgd(Sgd { learning_rate: 0.1, momentum: 0.9 }, &params),
    ];
    for mut other in others {
        assert_eq!(other.set_bytes(&bytes).unwrap_err().kind(), relive_nn::ErrorKind::Mismatch);
        assert_eq!(adam.set_bytes(&other.to_bytes()).unwrap_err().kind(), relive_nn::ErrorKind::Mismatch);
    }
    for end in [0, 1, 31, 32, bytes.len() - 1] {
        assert_eq!(adam.set_bytes(&bytes[..end]).unwrap_err().kind(), relive_nn::ErrorKind::Damaged, "{end}");
    }
    assert_eq!(adam, before);
}

/// Acting, bootstrapping, frozen networks and a learner's step leave nothing in memory.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow() {
    let resident_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap()
    };
    let mut learner = Learner::new(1);
    let mut round = |steps: usize| {
        for _ in 0..steps {
            learner.step(true);
            let frozen = Weights::frozen(&learner.params);
            let x = tape::constant(one_hot(&[1, 2, 3]), [3, STATES]);
            assert!(!frozen.run(&learner.network, x).is_tracked());
            for state in 0..20 {
                learner.network.infer(&learner.params, &one_hot(&[state % STATES]), &mut learner.scratch);
            }
        }
    };
    round(300);
    let before = resident_kib();
    round(3000);
    let grown = resident_kib() - before;
    assert!(grown < 4096, "{grown} KiB more after 3,000 steps");
}
