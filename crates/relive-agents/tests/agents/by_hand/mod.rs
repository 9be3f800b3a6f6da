//! Learning by hand: what each agent's learner makes of its batches, in plain arithmetic of f64 that knows nothing of
//! the crates' losses and gradients.
//!
//! A run's hooks show each batch, and what was learned from it. By hand the same batch gives losses by the formulas,
//! gradients by differences of these losses, and the steps of the optimiser. Numbers that a learner draws are drawn
//! here from streams of the same keys.

pub(crate) mod actor_critic;
pub(crate) mod bcq;
pub(crate) mod deterministic;
pub(crate) mod dqn;
pub(crate) mod fitted;
pub(crate) mod mcts;
pub(crate) mod mpo;
mod numbers;
mod policies;
pub(crate) mod r2d2;
mod returns;
mod seen;
pub(crate) mod soft;
pub(crate) mod v_trace;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_env::EnvironmentSpec;
use relive_nn::Key;
use relive_rl::run::{Hooks, Report, RunOptions};
use relive_rl::{Agent, Learnt};

use crate::common::{options, run};
use numbers::Learned;
use seen::Experience;

/// A learner by hand.
pub(crate) trait Hand: Send {
    /// Learns from a batch: what the learner is to tell of it.
    fn learn(&mut self, experience: &Experience<'_>) -> Told;

    /// What policies act by.
    fn acting(&self) -> Vec<&Learned>;
}

/// What a learner tells of a batch.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) metrics: Vec<(&'static str, f64)>,
    /// Of the items in their order; empty where they are not told.
    pub(crate) priorities: Vec<f64>,
}

impl Told {
    fn of(metrics: &[(&'static str, f64)]) -> Told {
        Told { metrics: metrics.to_vec(), priorities: Vec::new() }
    }
}

/// Makes a learner by hand for an environment, from the key that everything random in a learner follows from.
pub(crate) type MakeHand = Box<dyn Fn(&EnvironmentSpec, Key) -> Box<dyn Hand>>;

/// How an agent is learned by hand.
pub(crate) struct ByHand {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) environment: &'static str,
    pub(crate) hand: MakeHand,
}

/// Steps of the learner: so many that target networks follow, and that steps of an optimiser show the sizes of
/// gradients.
const LEARNER_STEPS: u64 = 8;

/// Steps of a learner that tells of a step by its reports only: it makes one after so many.
const STEPS_TO_REPORT: u64 = 100;

/// How far single precision may be from the exact numbers, of the sizes of losses.
const TOLERANCE: f64 = 3e-5;

/// How far weights may be off, in steps of the optimiser.
const STEPS_APART: f64 = 0.02;

/// A run of an agent, held against the same by hand.
pub(crate) fn check(by_hand: &ByHand, data: Option<&Path>) {
    const SEED: u64 = 5;
    let ByHand { agent, environment, hand } = by_hand;
    let spec = relive_env::make(environment, SEED).unwrap().spec().clone();
    let hand = Arc::new(Mutex::new(hand(&spec, Key::from_seed(SEED).child("network"))));
    let told: Arc<Mutex<Vec<(Told, Learnt)>>> = Arc::default();
    let hooks = {
        let (hand, told) = (Arc::clone(&hand), Arc::clone(&told));
        Hooks::default().on_batch(move |seen, _| {
            let expected = hand.lock().learn(&Experience { seen, spec: &spec });
            let told = Arc::clone(&told);
            Ok(Box::new(move |learnt| {
                told.lock().push((expected, learnt.clone()));
                Ok(())
            }))
        })
    };
    let (env_steps, learner_steps) = (if data.is_some() { 0 } else { 10_000 }, Some(LEARNER_STEPS));
    let options = RunOptions {
        learner_steps,
        hooks,
        data: data.map(Path::to_owned),
        ..options(environment, env_steps, SEED)
    };
    let (trained, _) = run(agent, &options).unwrap();
    let (told, hand) = (told.lock(), hand.lock());
    assert!(told.len() >= 2, "{}: {} batches", agent.name(), told.len());
    for (batch, (expected, learnt)) in told.iter().enumerate() {
        metrics(&format!("{}, batch {batch}", agent.name()), &expected.metrics, &learnt.metrics);
        let found: Vec<f64> = learnt.priorities.iter().map(|(_, priority)| *priority).collect();
        assert_eq!(found.len(), expected.priorities.len(), "{}: priorities", agent.name());
        let close = |(got, want): (&f64, &f64)| (got - want).abs() <= TOLERANCE * (1.0 + want.abs());
        assert!(
            found.iter().zip(&expected.priorities).all(close),
            "{}, batch {batch}: {found:?}",
            agent.name()
        );
    }
    weights(agent.name(), &hand.acting(), &trained.weights);
}

/// A run of an agent whose learner gets no batches that could be shown: rollouts are, and its reports hold what was
/// learned.
pub(crate) fn check_rollouts(by_hand: &ByHand) {
    const SEED: u64 = 5;
    let ByHand { agent, environment, hand } = by_hand;
    let spec = relive_env::make(environment, SEED).unwrap().spec().clone();
    let hand = Arc::new(Mutex::new(hand(&spec, Key::from_seed(SEED).child("network"))));
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let hooks = {
        let (hand, told) = (Arc::clone(&hand), Arc::clone(&told));
        Hooks::default().on_rollout(move |rollout, _| {
            let seen = relive_rl::run::Seen::Rollout(rollout);
            told.lock().push(hand.lock().learn(&Experience { seen, spec: &spec }));
            Ok(())
        })
    };
    let options =
        RunOptions { learner_steps: Some(STEPS_TO_REPORT), hooks, ..options(environment, 10_000, SEED) };
    let (trained, reports) = run(agent, &options).unwrap();
    let (told, hand) = (told.lock(), hand.lock());
    let reported = reports.iter().rev().find_map(|report| match report {
        Report::Learner(report) => Some(report),
        _ => None,
    });
    let reported = reported.expect("a report of the learner");
    let number = usize::try_from(reported.learner_steps).unwrap() - 1;
    // How old the weights were the run tells, not the learner.
    let of_learner = reported.metrics.iter().filter(|(name, _)| *name != "version_lag").copied();
    metrics(agent.name(), &told[number].metrics, &of_learner.collect::<Vec<_>>());
    assert_eq!(told.len() as u64, STEPS_TO_REPORT);
    weights(agent.name(), &hand.acting(), &trained.weights);
}

fn metrics(what: &str, expected: &[(&'static str, f64)], got: &[(&'static str, f64)]) {
    let names = |all: &[(&'static str, f64)]| all.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names(expected), names(got), "{what}");
    let close = |got: f64, want: f64| (got - want).abs() <= TOLERANCE * (1.0 + want.abs());
    let all = got.iter().zip(expected).all(|((_, got), (_, want))| close(*got, *want));
    assert!(all, "{what}: {got:?}, by hand {expected:?}");
}

fn weights(name: &str, expected: &[&Learned], got: &relive_rl::Weights) {
    for learned in expected {
        for (leaf, want) in learned.all() {
            let part = got.part(leaf).unwrap_or_else(|| panic!("{name}: no weights {leaf}"));
            let got = part.to_vec::<f32>().unwrap();
            let apart = got.iter().zip(want).map(|(got, want)| (f64::from(*got) - want).abs());
            let most = apart.fold(0.0, f64::max);
            assert_eq!(got.len(), want.len(), "{name}: {leaf}");
            assert!(
                most <= STEPS_APART * learned.rate(),
                "{name}: {leaf} is {most} off\n{got:?}, by hand\n{want:?}"
            );
        }
    }
}
