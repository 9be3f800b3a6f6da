//! Networks and optimizers in plain f64 arithmetic, written from the formulas.

use std::ops::Range;

use relive_nn::Params;

/// Parameters of networks, by the names of their leaves.
#[derive(Clone, Copy)]
pub(crate) struct ParamsView<'a> {
    leaves: &'a [(String, Range<usize>)],
    values: &'a [f64],
}

impl<'a> ParamsView<'a> {
    /// Returns the numbers of a leaf; none if there is no such leaf.
    pub(crate) fn find(self, name: &str) -> Option<&'a [f64]> {
        let (_, range) = self.leaves.iter().find(|(own, _)| own == name)?;
        Some(&self.values[range.clone()])
    }

    /// Returns the numbers of an existing leaf.
    pub(crate) fn leaf(self, name: &str) -> &'a [f64] {
        self.find(name).unwrap_or_else(|| panic!("there is no leaf {name} among {:?}", self.leaves))
    }

    /// Returns all numbers.
    pub(crate) fn all(self) -> &'a [f64] {
        self.values
    }

    /// Returns x·W + b.
    pub(crate) fn linear(self, name: &str, x: &[f64]) -> Vec<f64> {
        let (w, b) = (self.leaf(&format!("{name}/w")), self.leaf(&format!("{name}/b")));
        let into = |output: usize| {
            x.iter().enumerate().map(|(input, x)| x * w[input * b.len() + output]).sum::<f64>()
        };
        b.iter().enumerate().map(|(output, b)| b + into(output)).collect()
    }

    /// Applies layers 0, 1, …, with an activation after all but the last. A layer with `scale` and `offset` normalizes
    /// its row, and tanh follows.
    pub(crate) fn layers(self, name: &str, x: &[f64], activation: fn(f64) -> f64) -> Vec<f64> {
        let (mut x, mut number) = (x.to_vec(), 0);
        loop {
            let layer = format!("{name}/{number}");
            let next = |kind: &str| self.find(&format!("{name}/{}/{kind}", number + 1)).is_some();
            x = match self.find(&format!("{layer}/scale")) {
                Some(scale) => normalized(&x, scale, self.leaf(&format!("{layer}/offset"))),
                None => self.linear(&layer, &x),
            };
            if next("w") && self.find(&format!("{layer}/w")).is_some() {
                x.iter_mut().for_each(|number| *number = activation(*number));
            } else if !next("w") && !next("scale") {
                return x;
            }
            number += 1;
        }
    }
}

/// Applies layer normalization (Ba et al. 2016), then tanh.
fn normalized(x: &[f64], scale: &[f64], offset: &[f64]) -> Vec<f64> {
    let center = mean(x.iter().copied());
    let deviation = (mean(x.iter().map(|x| (x - center).powi(2))) + 1e-5).sqrt();
    let row = x.iter().zip(scale).zip(offset);
    row.map(|((x, scale), offset)| (scale * (x - center) / deviation + offset).tanh()).collect()
}

pub(crate) fn relu(x: f64) -> f64 {
    x.max(0.0)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(crate) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pub(crate) fn huber(x: f64) -> f64 {
    if x.abs() <= 1.0 { 0.5 * x * x } else { x.abs() - 0.5 }
}

/// Returns the mean of numbers.
pub(crate) fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    numbers.for_each(|number| (sum, count) = (sum + number, count + 1));
    sum / f64::from(count)
}

/// Returns ln Σ exp.
pub(crate) fn log_sum_exp(numbers: &[f64]) -> f64 {
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + numbers.iter().map(|number| (number - most).exp()).sum::<f64>().ln()
}

/// Returns the logarithms of the probabilities of logits.
pub(crate) fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let total = log_sum_exp(logits);
    logits.iter().map(|logit| logit - total).collect()
}

/// Returns the index of the first greatest number.
pub(crate) fn best(numbers: &[f64]) -> usize {
    (0..numbers.len()).fold(0, |best, place| if numbers[place] > numbers[best] { place } else { best })
}

/// Returns ln N(x; μ, σ).
pub(crate) fn log_normal(x: f64, mean: f64, stddev: f64) -> f64 {
    let z = (x - mean) / stddev;
    -0.5 * z * z - stddev.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// The optimizer.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Adam { rate: f32, epsilon: f32 },
    RmsProp { rate: f32, epsilon: f32 },
}

impl Rule {
    pub(crate) fn adam(rate: f32) -> Rule {
        Rule::Adam { rate, epsilon: 1e-8 }
    }
}

/// Learned parameters and their optimizer.
pub(crate) struct Learned {
    leaves: Vec<(String, Range<usize>)>,
    pub(crate) values: Vec<f64>,
    rule: Rule,
    bound: Option<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    pub(crate) steps: u64,
}

impl Learned {
    /// Creates learned parameters with the initial values of `params`.
    pub(crate) fn new(params: &Params, rule: Rule) -> Learned {
        let leaves = params.layout().leaves().iter().map(|leaf| (leaf.name().to_owned(), leaf.range()));
        let zeros = vec![0.0; params.values().len()];
        Learned {
            leaves: leaves.collect(),
            values: params.values().iter().copied().map(f64::from).collect(),
            rule,
            bound: None,
            first: zeros.clone(),
            second: zeros,
            steps: 0,
        }
    }

    /// Adds a bound on the gradient's norm, if there is one.
    pub(crate) fn bounded(self, bound: Option<f32>) -> Learned {
        Learned { bound: bound.map(f64::from), ..self }
    }

    pub(crate) fn at<'a>(&'a self, values: &'a [f64]) -> ParamsView<'a> {
        ParamsView { leaves: &self.leaves, values }
    }

    pub(crate) fn now(&self) -> ParamsView<'_> {
        self.at(&self.values)
    }

    /// Computes a loss, and its gradient by finite differences.
    pub(crate) fn differentiate(&self, loss: impl Fn(ParamsView<'_>) -> f64) -> (f64, Vec<f64>) {
        const STEP: f64 = 1e-5;
        let mut moved = self.values.clone();
        let mut by = |place: usize| {
            let own = moved[place];
            let [less, more] = [own - STEP, own + STEP].map(|value| {
                moved[place] = value;
                loss(self.at(&moved))
            });
            moved[place] = own;
            (more - less) / (2.0 * STEP)
        };
        let gradient = (0..self.values.len()).map(&mut by).collect();
        (loss(self.now()), gradient)
    }

    /// Takes a step against a gradient.
    #[expect(clippy::cast_precision_loss, reason = "steps of a test")]
    pub(crate) fn go(&mut self, gradient: &[f64]) {
        self.steps += 1;
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let factor = self.bound.map_or(1.0, |bound| (bound / norm).min(1.0));
        let unbiased = |decay: f64| 1.0 - decay.powf(self.steps as f64);
        for (place, g) in gradient.iter().map(|g| g * factor).enumerate() {
            let (m, v) = (&mut self.first[place], &mut self.second[place]);
            self.values[place] -= match self.rule {
                Rule::Adam { rate, epsilon } => {
                    *m = 0.9 * *m + 0.1 * g;
                    *v = 0.999 * *v + 0.001 * g * g;
                    let root = (*v / unbiased(0.999)).sqrt();
                    f64::from(rate) * (*m / unbiased(0.9)) / (root + f64::from(epsilon))
                }
                Rule::RmsProp { rate, epsilon } => {
                    *v = 0.99 * *v + 0.01 * g * g;
                    f64::from(rate) * g / (v.sqrt() + f64::from(epsilon))
                }
            };
        }
    }

    /// Moves other numbers a share of the way towards these.
    pub(crate) fn draw_near(&self, others: &mut [f64], share: f32) {
        let share = f64::from(share);
        others.iter_mut().zip(&self.values).for_each(|(other, own)| *other += share * (own - *other));
    }

    /// Returns the approximate maximum size of a step.
    pub(crate) fn rate(&self) -> f64 {
        match self.rule {
            Rule::Adam { rate, .. } | Rule::RmsProp { rate, .. } => f64::from(rate),
        }
    }

    /// Returns the positions of each leaf's numbers.
    pub(crate) fn places(&self) -> Vec<(String, Range<usize>)> {
        self.leaves.clone()
    }

    /// Returns all numbers by the names of their leaves.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.leaves.iter().map(|(name, range)| (&name[..], &self.values[range.clone()]))
    }
}
