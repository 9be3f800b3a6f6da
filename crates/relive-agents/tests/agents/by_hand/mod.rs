//! Independent computation of learning: reimplements each agent's learner in plain f64 arithmetic, independently of the
//! crates' losses and gradients.
//!
//! A run's hooks provide each batch and the learner's report. From the same batch, this code computes losses by the
//! formulas, gradients by finite differences of the losses, and the optimizer's steps. Random numbers come from streams
//! with the same keys as the learner's.

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

/// A learner that is computed independently.
pub(crate) trait Hand: Send {
    /// Learns from a batch. Returns the expected report of the learner.
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport;

    /// Returns the parameters with which policies act.
    fn acting(&self) -> Vec<&Learned>;
}

/// A learner's report on a batch.
#[derive(Default)]
pub(crate) struct ExpectedReport {
    pub(crate) metrics: Vec<(&'static str, f64)>,
    /// The priorities of the items, in order; empty if the learner reports none.
    pub(crate) priorities: Vec<f64>,
}

impl ExpectedReport {
    fn of(metrics: &[(&'static str, f64)]) -> ExpectedReport {
        ExpectedReport { metrics: metrics.to_vec(), priorities: Vec::new() }
    }
}

/// Creates an independently computed learner for an environment, from the key of all the learner's randomness.
pub(crate) type MakeHand = Box<dyn Fn(&EnvironmentSpec, Key) -> Box<dyn Hand>>;

/// An agent, and how to compute its learning independently.
pub(crate) struct ByHand {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) environment: &'static str,
    pub(crate) hand: MakeHand,
}

/// The number of steps of the learner: enough that target networks are updated, and that the optimizer's steps reveal
/// the magnitudes of gradients.
const LEARNER_STEPS: u64 = 8;

/// The number of steps of a learner that is only observed through reports: it reports after this many steps.
const STEPS_TO_REPORT: u64 = 100;

/// The tolerance for single precision, relative to the magnitudes of losses.
const TOLERANCE: f64 = 3e-5;

/// The tolerance for weights, in steps of the optimizer.
const STEPS_APART: f64 = 0.02;

/// Compares a run of an agent with the independent computation.
pub(crate) fn check(by_hand: &ByHand, data: Option<&Path>) {
    const SEED: u64 = 5;
    let ByHand { agent, environment, hand } = by_hand;
    let spec = relive_env::make(environment, SEED).unwrap().spec().clone();
    let hand = Arc::new(Mutex::new(hand(&spec, Key::from_seed(SEED).child("network"))));
    let text: Arc<Mutex<Vec<(ExpectedReport, Learnt)>>> = Arc::default();
    let hooks = {
        let (hand, text) = (Arc::clone(&hand), Arc::clone(&text));
        Hooks::default().on_batch(move |seen, _| {
            let expected = hand.lock().learn(&Experience { seen, spec: &spec });
            let text = Arc::clone(&text);
            Ok(Box::new(move |learnt| {
                text.lock().push((expected, learnt.clone()));
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
    let (text, hand) = (text.lock(), hand.lock());
    assert!(text.len() >= 2, "{}: {} batches", agent.name(), text.len());
    for (batch, (expected, learnt)) in text.iter().enumerate() {
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

/// Compares a run of an agent with a learner whose batches hooks cannot observe: the hooks observe rollouts, and the
/// reports contain the metrics.
pub(crate) fn check_rollouts(by_hand: &ByHand) {
    const SEED: u64 = 5;
    let ByHand { agent, environment, hand } = by_hand;
    let spec = relive_env::make(environment, SEED).unwrap().spec().clone();
    let hand = Arc::new(Mutex::new(hand(&spec, Key::from_seed(SEED).child("network"))));
    let text: Arc<Mutex<Vec<ExpectedReport>>> = Arc::default();
    let hooks = {
        let (hand, text) = (Arc::clone(&hand), Arc::clone(&text));
        Hooks::default().on_rollout(move |rollout, _| {
            let seen = relive_rl::run::LearnerInput::Rollout(rollout);
            text.lock().push(hand.lock().learn(&Experience { seen, spec: &spec }));
            Ok(())
        })
    };
    let options =
        RunOptions { learner_steps: Some(STEPS_TO_REPORT), hooks, ..options(environment, 10_000, SEED) };
    let (trained, reports) = run(agent, &options).unwrap();
    let (text, hand) = (text.lock(), hand.lock());
    let reported = reports.iter().rev().find_map(|report| match report {
        Report::Learner(report) => Some(report),
        _ => None,
    });
    let reported = reported.expect("a report of the learner");
    let number = usize::try_from(reported.learner_steps).unwrap() - 1;
    // The run reports the lag of weights, not the learner.
    let of_learner = reported.metrics.iter().filter(|(name, _)| *name != "version_lag").copied();
    metrics(agent.name(), &text[number].metrics, &of_learner.collect::<Vec<_>>());
    assert_eq!(text.len() as u64, STEPS_TO_REPORT);
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
