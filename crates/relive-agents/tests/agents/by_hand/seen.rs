//! The batches that a run's hooks observe, in f64.

use relive_env::{ArraySpec, Buffer, EnvironmentSpec};
use relive_rl::plan::{Sequences, Transitions};
use relive_rl::run::LearnerInput;
use relive_rl::{Features, Rollout};
use relive_tensor::Nest;

/// The data from which a learner is about to learn.
pub(crate) struct Experience<'a> {
    pub(crate) seen: LearnerInput<'a>,
    pub(crate) spec: &'a EnvironmentSpec,
}

/// A transition. Its discount is the environment's, times the agent's for all steps except the last.
#[derive(Clone)]
pub(crate) struct Transition {
    pub(crate) seen: Vec<f64>,
    pub(crate) done: Vec<f64>,
    pub(crate) reward: f64,
    pub(crate) discount: f64,
    pub(crate) next: Vec<f64>,
    pub(crate) extras: Vec<f64>,
    pub(crate) probability: f64,
}

impl Transition {
    /// Returns the number of a discrete action.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    pub(crate) fn choice(&self) -> usize {
        self.done[0] as usize
    }
}

/// A rollout, cell by cell.
pub(crate) struct Cells {
    pub(crate) steps: usize,
    pub(crate) rows: usize,
    /// The observations of `(steps + 1) · rows` cells.
    pub(crate) seen: Vec<Vec<f64>>,
    pub(crate) done: Vec<Vec<f64>>,
    /// The extras, leaf by leaf and cell by cell.
    pub(crate) extras: Vec<Vec<Vec<f64>>>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) discounts: Vec<f64>,
    /// Whether an episode began with the time step, and whether one ended.
    pub(crate) first: Vec<bool>,
    pub(crate) last: Vec<bool>,
}

impl Cells {
    /// Returns the cells from which the agent can learn.
    pub(crate) fn learnable(&self) -> Vec<usize> {
        (0..self.first.len()).filter(|cell| !self.first[*cell]).collect()
    }
}

impl Experience<'_> {
    /// Returns a batch of transitions, as numbers.
    pub(crate) fn transitions(&self) -> Vec<Transition> {
        self.transitions_with(&Nest::None)
    }

    pub(crate) fn transitions_with(&self, extras: &Nest<ArraySpec>) -> Vec<Transition> {
        let LearnerInput::Samples(samples) = self.seen else { panic!("a rollout, not samples") };
        let mut all = Transitions::new(self.spec, 1.0).unwrap().with_extras(extras).unwrap();
        all.read(samples).unwrap();
        let count = all.rewards.len();
        let row = |numbers: &[f32], number: usize| {
            let width = numbers.len() / count;
            numbers[number * width..(number + 1) * width].iter().copied().map(f64::from).collect::<Vec<_>>()
        };
        let transition = |number: usize| Transition {
            seen: row(&all.observations, number),
            done: row(&all.actions, number),
            reward: all.rewards[number].into(),
            discount: all.discounts[number].into(),
            next: row(&all.next_observations, number),
            extras: row(&all.extras, number),
            probability: all.probabilities[number].into(),
        };
        (0..count).map(transition).collect()
    }

    /// Returns a batch of sequences with the given extras; their discounts are the environment's.
    pub(crate) fn sequences(&self, extras: &Nest<ArraySpec>) -> Sequences {
        let LearnerInput::Samples(samples) = self.seen else { panic!("a rollout, not samples") };
        let mut all = Sequences::new(self.spec, extras, 1.0).unwrap();
        all.read(samples).unwrap();
        all
    }

    /// Returns the batch as a rollout.
    pub(crate) fn cells(&self) -> Cells {
        let LearnerInput::Rollout(rollout) = self.seen else { panic!("samples, not a rollout") };
        let Rollout { steps, rows, answers, .. } = rollout;
        let numbers = |spec: &Nest<ArraySpec>, buffer: &Buffer| {
            let (features, mut all) = (Features::of(spec).unwrap(), Vec::new());
            features.write_rows(buffer, &mut all);
            rows_of(&all, features.width())
        };
        let extras = (0..rollout.extras.num_leaves()).map(|leaf| {
            let all = rollout.extras.leaf::<f32>(leaf).unwrap();
            rows_of(all, all.len() / (steps * rows))
        });
        Cells {
            steps: *steps,
            rows: *rows,
            seen: numbers(&self.spec.observations, &rollout.observations),
            done: numbers(&self.spec.actions, &rollout.actions),
            extras: extras.collect(),
            rewards: answers.iter().map(|answer| answer.reward).collect(),
            discounts: answers.iter().map(|answer| answer.discount).collect(),
            first: answers.iter().map(relive_env::TimeStep::first).collect(),
            last: answers.iter().map(relive_env::TimeStep::last).collect(),
        }
    }
}

pub(crate) fn rows_of(numbers: &[f32], width: usize) -> Vec<Vec<f64>> {
    numbers.chunks_exact(width).map(|row| row.iter().copied().map(f64::from).collect()).collect()
}

/// Returns the number of values in an observation.
pub(crate) fn width(spec: &EnvironmentSpec) -> usize {
    Features::of_observations(&spec.observations).unwrap().width()
}

/// Returns the number of discrete actions; `None` if actions are of another kind.
pub(crate) fn choices(spec: &EnvironmentSpec) -> Option<usize> {
    let Nest::Leaf(leaf) = &spec.actions else { return None };
    leaf.num_values().map(|count| usize::try_from(count).unwrap())
}
