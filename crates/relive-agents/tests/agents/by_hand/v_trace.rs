//! IMPALA and APPO.

use relive_agents::{AppoConfig, ImpalaConfig};
use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Init, Key, Layout, LinearInit, Lstm, Network, NetworkBuilder};

use super::actor_critic::{PolicyTerms, drawn_by, standardized};
use super::numbers::{Learned, ParamsView, Rule, mean};
use super::r2d2::Remembered;
use super::seen::{Cells, Experience, choices, width};
use super::{ExpectedReport, Hand, MakeHand};

/// The settings that both agents share.
#[derive(Clone)]
struct Settings {
    rate: f32,
    epsilon: f32,
    bound: Option<f32>,
    discount: f64,
    trace_decay: f64,
    clip: Option<f64>,
    value_cost: f64,
    entropy_cost: f64,
    epochs: usize,
    normalizes: bool,
    hidden: Vec<usize>,
    units: usize,
}

pub(crate) fn impala(config: &ImpalaConfig) -> MakeHand {
    let settings = Settings {
        rate: config.learning_rate,
        epsilon: config.adam_epsilon,
        bound: config.max_gradient_norm,
        discount: config.discount.into(),
        trace_decay: config.trace_decay.into(),
        clip: None,
        value_cost: config.value_cost.into(),
        entropy_cost: config.entropy_cost.into(),
        epochs: 1,
        normalizes: false,
        hidden: config.hidden.clone(),
        units: config.lstm_units,
    };
    Box::new(move |spec, key| Box::new(VTrace::new(&settings, spec, key)))
}

pub(crate) fn appo(config: &AppoConfig) -> MakeHand {
    let settings = Settings {
        rate: config.learning_rate,
        epsilon: config.adam_epsilon,
        bound: config.max_gradient_norm,
        discount: config.discount.into(),
        trace_decay: config.trace_decay.into(),
        clip: Some(config.clip.into()),
        value_cost: config.value_cost.into(),
        entropy_cost: config.entropy_cost.into(),
        epochs: config.epochs,
        normalizes: config.normalize_advantages,
        hidden: config.hidden.clone(),
        units: config.lstm_units,
    };
    Box::new(move |spec, key| Box::new(VTrace::new(&settings, spec, key)))
}

struct VTrace {
    settings: Settings,
    /// The number of discrete actions, if actions are discrete.
    choices: Option<usize>,
    learned: Learned,
}

fn front<'a>(layout: &'a mut Layout, name: &str, inputs: usize, hidden: &[usize]) -> NetworkBuilder<'a> {
    Network::builder(layout, name, inputs)
        .init(LinearInit::Orthogonal { gain: std::f32::consts::SQRT_2 })
        .mlp(hidden, Activation::Tanh)
}

impl VTrace {
    fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> VTrace {
        let (choices, mut layout) = (choices(spec), Layout::new());
        let numbers = if choices.is_some() { 0 } else { 1 };
        let outputs = choices.unwrap_or(1) + 1;
        let inputs = width(spec);
        let last = LinearInit::Orthogonal { gain: 0.01 };
        if settings.units == 0 {
            front(&mut layout, "policy", inputs, &settings.hidden).init(last).linear(outputs - 1).build();
            let of_values = LinearInit::Orthogonal { gain: 1.0 };
            front(&mut layout, "value", inputs, &settings.hidden).init(of_values).linear(1).build();
        } else {
            let front = front(&mut layout, "torso", inputs, &settings.hidden).build();
            Lstm::new(&mut layout, "memory", front.outputs(), settings.units);
            Network::builder(&mut layout, "head", settings.units).init(last).linear(outputs).build();
        }
        layout.add("log_std", &[numbers], Init::Constant(0.0));
        let rule = Rule::Adam { rate: settings.rate, epsilon: settings.epsilon };
        let learned = Learned::new(&layout.init(key), rule).bounded(settings.bound);
        VTrace { settings: settings.clone(), choices, learned }
    }

    /// Returns the outputs for all cells: the parameters of the action distribution, followed by the value.
    fn outputs(&self, at: ParamsView<'_>, cells: &Cells) -> Vec<Vec<f64>> {
        let mut outputs = vec![Vec::new(); cells.seen.len()];
        let memory = usize::from(self.choices.is_none());
        for row in 0..cells.rows {
            let mut state = Remembered::nothing(self.settings.units);
            if self.settings.units > 0 {
                let of_leaf = |leaf: usize| cells.extras[leaf][row].clone();
                state = Remembered { cell: of_leaf(memory), hidden: of_leaf(memory + 1) };
            }
            for cell in (row..cells.seen.len()).step_by(cells.rows) {
                let seen = &cells.seen[cell];
                if self.settings.units == 0 {
                    outputs[cell] = at.layers("policy", seen, f64::tanh);
                    outputs[cell].extend(at.layers("value", seen, f64::tanh));
                    continue;
                }
                let x = at.layers("torso", seen, f64::tanh);
                if cell >= cells.rows && cells.first[cell - cells.rows] {
                    state = Remembered::nothing(self.settings.units);
                }
                let features: Vec<f64> = x.into_iter().map(f64::tanh).collect();
                state.step(at, &features);
                outputs[cell] = at.layers("head", &state.hidden, f64::tanh);
            }
        }
        outputs
    }

    fn log_probability(&self, at: ParamsView<'_>, outputs: &[f64], cells: &Cells, cell: usize) -> (f64, f64) {
        let done = if self.choices.is_some() { &cells.done[cell] } else { &cells.extras[0][cell] };
        drawn_by(at, &outputs[..outputs.len() - 1], done, self.choices.is_some())
    }

    /// Returns vs and the advantage of each cell (Espeholt et al. 2018, equation 1, and section 4.2; λ as in rlax).
    fn corrected(&self, cells: &Cells, outputs: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
        let (rows, count) = (cells.rows, cells.steps * cells.rows);
        let (mut wanted, mut advantages) = (vec![0.0; count], vec![0.0; count]);
        let value = |cell: usize| *outputs[cell].last().unwrap();
        for row in 0..rows {
            let mut after = (0.0, value(row + count));
            for cell in (row..count).step_by(rows).rev() {
                let old = cells.extras.last().unwrap()[cell][0];
                let (now, _) = self.log_probability(self.learned.now(), &outputs[cell], cells, cell);
                let ratio = if cells.first[cell] { 0.0 } else { (now - old).exp() };
                let discount = self.settings.discount * cells.discounts[cell];
                let (correction, next_goal) = after;
                let next = value(cell + rows);
                let own = ratio.min(1.0) * (cells.rewards[cell] + discount * next - value(cell));
                let error = own + discount * self.settings.trace_decay * ratio.min(1.0) * correction;
                wanted[cell] = value(cell) + error;
                let decay = self.settings.trace_decay;
                let next_goal = decay * next_goal + (1.0 - decay) * next;
                let better = cells.rewards[cell] + discount * next_goal - value(cell);
                advantages[cell] =
                    if self.settings.clip.is_some() { better } else { ratio.min(1.0) * better };
                after = (error, wanted[cell]);
            }
        }
        (wanted, advantages)
    }
}

impl Hand for VTrace {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let (cells, settings) = (experience.cells(), self.settings.clone());
        let learnable = cells.learnable();
        let mut all: Vec<[f64; 5]> = Vec::new();
        for _ in 0..settings.epochs {
            let (wanted, advantages) = self.corrected(&cells, &self.outputs(self.learned.now(), &cells));
            let mut advantages: Vec<f64> = learnable.iter().map(|cell| advantages[*cell]).collect();
            if settings.normalizes {
                advantages = standardized(&advantages);
            }
            let terms = |at: ParamsView<'_>| {
                let outputs = self.outputs(at, &cells);
                let mut terms = PolicyTerms::new(settings.clip, settings.entropy_cost);
                for (cell, advantage) in learnable.iter().zip(&advantages) {
                    let (log_p, entropy) = self.log_probability(at, &outputs[*cell], &cells, *cell);
                    terms.add(log_p, entropy, cells.extras.last().unwrap()[*cell][0], *advantage);
                }
                let error = |cell: &usize| (outputs[*cell].last().unwrap() - wanted[*cell]).powi(2);
                terms.found(settings.value_cost * mean(learnable.iter().map(error)))
            };
            let (_, gradient) = self.learned.differentiate(|at| terms(at)[0] + terms(at)[1]);
            all.push(terms(self.learned.now()));
            self.learned.go(&gradient);
        }
        PolicyTerms::report(&all)
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}
