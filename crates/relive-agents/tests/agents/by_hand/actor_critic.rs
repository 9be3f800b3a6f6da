//! PPO, A2C and A3C, and the policy loss that they share with IMPALA.

use relive_agents::{A2cConfig, PpoConfig};
use relive_env::EnvironmentSpec;
use relive_nn::{Activation, Init, Key, Layout, LinearInit, Network, Stream};

use super::numbers::{Learned, ParamsView, Rule, log_normal, log_softmax, mean};
use super::seen::{Cells, Experience, choices, width};
use super::{ExpectedReport, Hand, MakeHand};

/// The terms of a policy's loss, for each action.
pub(crate) struct PolicyTerms {
    clip: Option<f64>,
    entropy_cost: f64,
    /// For each action: loss, entropy, divergence, and whether the ratio exceeds the clip range.
    actions: Vec<[f64; 4]>,
}

impl PolicyTerms {
    pub(crate) fn new(clip: Option<f64>, entropy_cost: f64) -> PolicyTerms {
        PolicyTerms { clip, entropy_cost, actions: Vec::new() }
    }

    /// Adds an action: −ln π·A, or, with a clip, equation 7 of Schulman et al. 2017.
    pub(crate) fn add(&mut self, log_p: f64, entropy: f64, old: f64, advantage: f64) {
        let ratio = (log_p - old).exp();
        let (loss, beyond) = match self.clip {
            None => (-log_p * advantage, false),
            Some(clip) => {
                let bound = ratio.clamp(1.0 - clip, 1.0 + clip);
                (-(ratio * advantage).min(bound * advantage), (ratio - 1.0).abs() > clip)
            }
        };
        self.actions.push([loss, entropy, ratio - 1.0 - (log_p - old), f64::from(u8::from(beyond))]);
    }

    /// Returns the losses of the policy and the value, entropy, divergence, and the share outside the clip range.
    pub(crate) fn found(self, of_values: f64) -> [f64; 5] {
        let of = |place: usize| mean(self.actions.iter().map(|action| action[place]));
        [of(0) - self.entropy_cost * of(1), of_values, of(1), of(2), of(3)]
    }

    /// Returns the report: means over minibatches.
    pub(crate) fn report(all: &[[f64; 5]]) -> ExpectedReport {
        let names = ["policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"];
        let of = |place: usize| mean(all.iter().map(|found| found[place]));
        let metrics: Vec<_> = names.into_iter().enumerate().map(|(place, name)| (name, of(place))).collect();
        ExpectedReport::of(&metrics)
    }
}

/// Returns ln π of an action, given the outputs from which it was drawn, and the entropy of the policy in this state.
pub(crate) fn drawn_by(at: ParamsView<'_>, outputs: &[f64], done: &[f64], is_choice: bool) -> (f64, f64) {
    if is_choice {
        let logs = log_softmax(outputs);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let log_p = logs[done[0] as usize];
        return (log_p, -logs.iter().map(|log_p| log_p.exp() * log_p).sum::<f64>());
    }
    let spreads = at.leaf("log_std");
    let numbers = outputs.iter().zip(done).zip(spreads);
    let log_p = numbers.map(|((mean, done), log_std)| log_normal(*done, *mean, log_std.exp())).sum();
    let round = 0.5 + 0.5 * (2.0 * std::f64::consts::PI).ln();
    (log_p, spreads.iter().map(|log_std| log_std + round).sum())
}

/// Scales numbers to mean 0 and standard deviation 1.
pub(crate) fn standardized(numbers: &[f64]) -> Vec<f64> {
    let center = mean(numbers.iter().copied());
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let unbiased = numbers.len() as f64 / (numbers.len() - 1) as f64;
    let deviation = (unbiased * mean(numbers.iter().map(|number| (number - center).powi(2)))).sqrt();
    numbers.iter().map(|number| (number - center) / (deviation + 1e-8)).collect()
}

#[derive(Clone)]
struct Settings {
    rule: Rule,
    bound: f32,
    discount: f64,
    lambda: f64,
    epochs: usize,
    minibatch: Option<usize>,
    clip: Option<f64>,
    value_cost: f64,
    entropy_cost: f64,
    normalizes: bool,
    hidden: Vec<usize>,
}

pub(crate) fn ppo(config: &PpoConfig) -> MakeHand {
    let settings = Settings {
        rule: Rule::Adam { rate: config.learning_rate, epsilon: 1e-5 },
        bound: config.max_gradient_norm,
        discount: config.discount.into(),
        lambda: config.gae_lambda.into(),
        epochs: config.epochs,
        minibatch: Some(config.minibatch_size),
        clip: Some(config.clip.into()),
        value_cost: config.value_cost.into(),
        entropy_cost: config.entropy_cost.into(),
        normalizes: config.normalize_advantages,
        hidden: config.hidden.clone(),
    };
    Box::new(move |spec, key| Box::new(ActorCritic::new(&settings, spec, key)))
}

pub(crate) fn a2c(config: &A2cConfig) -> MakeHand {
    let settings = Settings {
        rule: Rule::RmsProp { rate: config.learning_rate, epsilon: 1e-5 },
        bound: config.max_gradient_norm,
        discount: config.discount.into(),
        lambda: config.gae_lambda.into(),
        epochs: 1,
        minibatch: None,
        clip: None,
        value_cost: config.value_cost.into(),
        entropy_cost: config.entropy_cost.into(),
        normalizes: false,
        hidden: config.hidden.clone(),
    };
    Box::new(move |spec, key| Box::new(ActorCritic::new(&settings, spec, key)))
}

struct ActorCritic {
    settings: Settings,
    is_choice: bool,
    learned: Learned,
    stream: Stream,
}

impl ActorCritic {
    fn new(settings: &Settings, spec: &EnvironmentSpec, key: Key) -> ActorCritic {
        let (choices, mut layout) = (choices(spec), Layout::new());
        for (name, outputs, gain) in [("policy", choices.unwrap_or(1), 0.01), ("value", 1, 1.0)] {
            Network::builder(&mut layout, name, width(spec))
                .init(LinearInit::Orthogonal { gain: std::f32::consts::SQRT_2 })
                .mlp(&settings.hidden, Activation::Tanh)
                .init(LinearInit::Orthogonal { gain })
                .linear(outputs)
                .build();
        }
        layout.add("log_std", &[if choices.is_some() { 0 } else { 1 }], Init::Constant(0.0));
        ActorCritic {
            learned: Learned::new(&layout.init(key), settings.rule).bounded(Some(settings.bound)),
            is_choice: choices.is_some(),
            stream: key.child("minibatches").stream(),
            settings: settings.clone(),
        }
    }

    /// Advantages and the targets of the values (Schulman et al. 2016, equation 16), cell by cell. The values are those
    /// that the policy wrote when it acted.
    fn advantages(&self, cells: &Cells) -> (Vec<f64>, Vec<f64>) {
        let (rows, count) = (cells.rows, cells.steps * cells.rows);
        let (mut advantages, mut wanted) = (vec![0.0; count], vec![0.0; count]);
        let describe = |cell: usize| match cell < count {
            true => cells.extras.last().unwrap()[cell][0],
            false => self.learned.now().layers("value", &cells.seen[cell], f64::tanh)[0],
        };
        for cell in (0..count).rev().filter(|cell| !cells.first[*cell]) {
            let discount = self.settings.discount * cells.discounts[cell];
            let error = cells.rewards[cell] + discount * describe(cell + rows) - describe(cell);
            let continues = !cells.last[cell] && cell + rows < count;
            let after = if continues { advantages[cell + rows] } else { 0.0 };
            advantages[cell] = error + discount * self.settings.lambda * after;
            wanted[cell] = advantages[cell] + describe(cell);
        }
        (advantages, wanted)
    }

    fn step(&mut self, cells: &Cells, part: &[usize], advantages: &[f64], wanted: &[f64]) -> [f64; 5] {
        let settings = &self.settings;
        let mut advantages: Vec<f64> = part.iter().map(|cell| advantages[*cell]).collect();
        if settings.normalizes {
            advantages = standardized(&advantages);
        }
        let is_choice = self.is_choice;
        let log_ps = &cells.extras[usize::from(!is_choice)];
        let terms = |at: ParamsView<'_>| {
            let mut terms = PolicyTerms::new(settings.clip, settings.entropy_cost);
            for (cell, advantage) in part.iter().zip(&advantages) {
                let outputs = at.layers("policy", &cells.seen[*cell], f64::tanh);
                let done = if is_choice { &cells.done[*cell] } else { &cells.extras[0][*cell] };
                let (log_p, entropy) = drawn_by(at, &outputs, done, is_choice);
                terms.add(log_p, entropy, log_ps[*cell][0], *advantage);
            }
            let value = |cell: usize| at.layers("value", &cells.seen[cell], f64::tanh)[0];
            let errors = part.iter().map(|cell| (value(*cell) - wanted[*cell]).powi(2));
            terms.found(settings.value_cost * mean(errors))
        };
        let (_, gradient) = self.learned.differentiate(|at| terms(at)[0] + terms(at)[1]);
        let found = terms(self.learned.now());
        self.learned.go(&gradient);
        found
    }
}

impl Hand for ActorCritic {
    fn learn(&mut self, experience: &Experience<'_>) -> ExpectedReport {
        let cells = experience.cells();
        let (advantages, wanted) = self.advantages(&cells);
        let (mut order, mut all) = (cells.learnable(), Vec::new());
        let size = self.settings.minibatch.unwrap_or(order.len());
        for _ in 0..self.settings.epochs {
            if size < order.len() {
                // Fisher and Yates.
                for last in (1..order.len()).rev() {
                    order.swap(last, self.stream.below(last + 1));
                }
            }
            for part in order.chunks(size) {
                all.push(self.step(&cells, part, &advantages, &wanted));
            }
        }
        PolicyTerms::report(&all)
    }

    fn acting(&self) -> Vec<&Learned> {
        vec![&self.learned]
    }
}
