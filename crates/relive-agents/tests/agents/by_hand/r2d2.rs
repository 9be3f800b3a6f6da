//! R2D2 and R2D3, and the recurrent memory that they share with IMPALA.

use relive_agents::R2d2Config;
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_nn::{Activation, Key, Layout, Lstm, Network};
use relive_rl::plan::Sequences;
use relive_tensor::{DType, Nest};

use super::numbers::{Learned, ParamsView, Rule, best, mean, relu, sigmoid};
use super::seen::{Experience, choices, rows_of, width};
use super::{ExpectedReport, Hand, MakeHand};

/// The state of a recurrent memory: h and c.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) hidden: Vec<f64>,
    pub(crate) cell: Vec<f64>,
}

impl Remembered {
    pub(crate) fn nothing(units: usize) -> Remembered {
        Remembered { hidden: vec![0.0; units], cell: vec![0.0; units] }
    }

    /// Takes a step of the LSTM named `memory` (Hochreiter and Schmidhuber 1997): input, candidate, forget and output
    /// gates, with 1 added to the forget gate.
    pub(crate) fn step(&mut self, at: ParamsView<'_>, x: &[f64]) {
        let (by_input, by_hidden) = (at.leaf("memory/wx"), at.leaf("memory/wh"));
        let mut sums = at.leaf("memory/b").to_vec();
        let wide = sums.len();
        for (from, weights) in [(x, by_input), (&self.hidden[..], by_hidden)] {
            for (input, x) in from.iter().enumerate() {
                sums.iter_mut().zip(&weights[input * wide..]).for_each(|(sum, w)| *sum += x * w);
            }
        }
        let units = self.cell.len();
        for unit in 0..units {
            let gate = |number: usize| sums[number * units + unit];
            let cell = sigmoid(gate(2) + 1.0) * self.cell[unit] + sigmoid(gate(0)) * gate(1).tanh();
            self.cell[unit] = cell;
            self.hidden[unit] = sigmoid(gate(3)) * cell.tanh();
        }
    }
}

pub(crate) fn hand(config: &R2d2Config) -> MakeHand {
    let config = config.clone();
    Box::new(move |spec, key| Box::new(R2d2::new(&config, spec, key)))
}

struct R2d2 {
    config: R2d2Config,
    learned: Learned,
    target: Vec<f64>,
}

/// A sequence of a batch, row by row.
struct Sequence {
    seen: Vec<Vec<f64>>,
    done: Vec<usize>,
    rewards: Vec<f64>,
    discounts: Vec<f64>,
    starts: Vec<bool>,
    state: Remembered,
    /// The range of rows to learn from, whose outcomes are known.
    begin: usize,
    end: usize,
    probability: f64,
}

impl R2d2 {
    fn new(config: &R2d2Config, spec: &EnvironmentSpec, key: Key) -> R2d2 {
        let (actions, mut layout) = (choices(spec).unwrap(), Layout::new());
        let torso =
            Network::builder(&mut layout, "torso", width(spec)).mlp(&config.hidden, Activation::Relu).build();
        Lstm::new(&mut layout, "memory", torso.outputs(), config.lstm_units);
        let head = Network::builder(&mut layout, "q", config.lstm_units);
        match config.duelling {
            true => head.duelling(&config.head, actions).build(),
            false => head.mlp(&config.head, Activation::Relu).linear(actions).build(),
        };
        let rule = Rule::Adam { rate: config.learning_rate, epsilon: config.adam_epsilon };
        let learned = Learned::new(&layout.init(key), rule).bounded(config.max_gradient_norm);
        R2d2 { target: learned.values.clone(), learned, config: config.clone() }
    }

    /// Returns the values of all actions in each row. Gradients stop at the first row to learn from: earlier rows use
    /// the parameters `before`.
    fn values(&self, before: ParamsView<'_>, at: ParamsView<'_>, sequence: &Sequence) -> Vec<Vec<f64>> {
        let mut state = sequence.state.clone();
        let mut row = |row: usize| {
            let at = if row < sequence.begin { before } else { at };
            if sequence.starts[row] {
                state = Remembered::nothing(self.config.lstm_units);
            }
            let features: Vec<f64> =
                at.layers("torso", &sequence.seen[row], relu).into_iter().map(relu).collect();
            state.step(at, &features);
            self.head(at, &state.hidden)
        };
        (0..sequence.seen.len()).map(&mut row).collect()
    }

    fn head(&self, at: ParamsView<'_>, x: &[f64]) -> Vec<f64> {
        if !self.config.duelling {
            return at.layers("q", x, relu);
        }
        let (value, advantages) = (at.layers("q/0/value", x, relu)[0], at.layers("q/0/advantage", x, relu));
        let center = mean(advantages.iter().copied());
        advantages.iter().map(|advantage| value + advantage - center).collect()
    }

    /// Returns the targets of the values of actions (Kapturowski et al. 2019, section 2.3), row by row.
    fn goals(&self, sequence: &Sequence) -> Vec<f64> {
        let [online, target] = [&self.learned.values, &self.target].map(|values| self.learned.at(values));
        let (online, target) = (self.values(online, online, sequence), self.values(target, target, sequence));
        let gamma = f64::from(self.config.discount);
        let goal = |row: usize| {
            let last = (row + self.config.n_step).min(sequence.end);
            let mut value = unscaled(target[last][best(&online[last])]);
            for step in (row..last).rev() {
                value = sequence.rewards[step] + gamma * sequence.discounts[step] * value;
            }
            scaled(value)
        };
        (sequence.begin..sequence.end).map(goal).collect()
    }

    fn errors(&self, at: ParamsView<'_>, sequence: &Sequence, goals: &[f64]) -> Vec<f64> {
        let values = self.values(self.learned.now(), at, sequence);
        let rows = sequence.begin..sequence.end;
        rows.zip(goals).map(|(row, goal)| goal - values[row][sequence.done[row]]).collect()
    }
}

/// Returns h(x) of Pohlen et al. 2018 with ε = 0.001.
fn scaled(x: f64) -> f64 {
    x.signum() * ((x.abs() + 1.0).sqrt() - 1.0) + 1e-3 * x
}

/// Returns the inverse of h, by bisection.
fn unscaled(y: f64) -> f64 {
    let (mut less, mut more) = (-1e6, 1e6);
    for _ in 0..100 {
        let middle = 0.5 * (less + more);
        if scaled(middle) < y { less = middle } else { more = middle }
    }
    0.5 * (less + more)
}

impl Hand for R2d2 {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let batch = sequences(&experience.sequences(&extras(self.config.lstm_units)), &self.config);
        let goals: Vec<_> = batch.iter().map(|sequence| self.goals(sequence)).collect();
        let beta = f64::from(self.config.importance_exponent);
        let weights: Vec<f64> = batch.iter().map(|sequence| sequence.probability.powf(-beta)).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        let (loss, gradient) = self.learned.differentiate(|at| {
            let of_sequence = |number: usize| {
                let errors = self.errors(at, &batch[number], &goals[number]);
                weights[number] / most * 0.5 * errors.iter().map(|error| error * error).sum::<f64>()
            };
            mean((0..batch.len()).map(of_sequence))
        });
        let share = f64::from(self.config.max_priority_weight);
        let priority = |(sequence, goals): (&Sequence, &Vec<f64>)| {
            let errors = self.errors(self.learned.now(), sequence, goals);
            if errors.is_empty() {
                return 0.0;
            }
            let most = errors.iter().fold(0.0_f64, |most, error| most.max(error.abs()));
            share * most + (1.0 - share) * mean(errors.iter().map(|error| error.abs()))
        };
        let priorities = batch.iter().zip(&goals).map(priority).collect();
        let is_due = self.learned.steps.is_multiple_of(self.config.target_update_period);
        self.learned.go(&gradient);
        if is_due {
            self.target.clone_from(&self.learned.values);
        }
        ExpectedReport { metrics: vec![("loss", loss)], priorities }
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}

/// Returns the extras of a policy with a recurrent memory.
fn extras(units: usize) -> Nest<ArraySpec> {
    let leaf = |name| Nest::Leaf(ArraySpec::new(name, DType::Float32, [u32::try_from(units).unwrap()]));
    Nest::dict([("cell", leaf("cell")), ("hidden", leaf("hidden"))])
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of actions")]
fn sequences(all: &Sequences, config: &R2d2Config) -> Vec<Sequence> {
    let rows = |numbers: &[f32]| rows_of(numbers, numbers.len() / (all.rows * all.batch));
    let (seen, done, extras) = (rows(&all.observations), rows(&all.actions), rows(&all.extras));
    let sequence = |number: usize| {
        let places = || (0..all.lengths[number]).map(|time| time * all.batch + number);
        let starts: Vec<bool> = places().map(|place| all.starts[place]).collect();
        let begin = if starts[0] { 0 } else { config.burn_in_length };
        // The last row, and the last of an episode, have no outcome.
        let end = (begin..starts.len()).find(|row| starts.get(row + 1).is_none_or(|starts| *starts));
        let state = &extras[number];
        Sequence {
            seen: places().map(|place| seen[place].clone()).collect(),
            done: places().map(|place| done[place][0] as usize).collect(),
            rewards: places().map(|place| all.rewards[place].into()).collect(),
            discounts: places().map(|place| all.discounts[place].into()).collect(),
            state: Remembered {
                cell: state[..config.lstm_units].to_vec(),
                hidden: state[config.lstm_units..].to_vec(),
            },
            begin,
            end: end.unwrap_or(begin).max(begin),
            starts,
            probability: all.probabilities[number].into(),
        }
    };
    (0..all.batch).map(sequence).collect()
}
