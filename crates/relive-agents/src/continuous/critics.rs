//! One or several critics.

use relive_nn::{Key, Layout, Network, Params, Scratch, Stream};
use relive_rl::Result;

use super::{Layers, Returns, Role, Spaces};

/// Critics that read observations concatenated with actions, all in one set of parameters.
#[derive(Debug)]
pub(crate) struct Critics {
    pub(crate) networks: Vec<Network>,
    pub(crate) returns: Returns,
}

/// How the values of several critics are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CriticReduction {
    /// The lowest value (Fujimoto et al. 2018).
    Least,
    /// The mean of all values (Chen et al. 2021).
    Mean,
    /// The value of the first critic.
    First,
}

impl Critics {
    /// Creates the given number of critics, and their initial parameters.
    ///
    /// # Errors
    /// The networks cannot be built.
    pub(crate) fn new(
        spaces: &Spaces,
        layers: Layers<'_>,
        (count, returns, role): (usize, Returns, Role),
        key: Key,
    ) -> Result<(Critics, Params)> {
        let mut layout = Layout::new();
        let inputs = spaces.width() + spaces.dimensions();
        let critic = |number| {
            layers.network(&mut layout, &format!("critic_{number}"), (inputs, returns.outputs()), role)
        };
        let networks = (1..=count).map(critic).collect::<Result<_>>()?;
        Ok((Critics { networks, returns }, layout.init(key.child("critics"))))
    }

    /// Returns the sum of the critics' losses, and its gradient.
    pub(crate) fn loss(&self, params: &Params, rows: &[f32], targets: &[f32], gradient: &mut [f32]) -> f32 {
        self.loss_towards(params, rows, || Some(targets), gradient).unwrap_or_default()
    }

    /// Like [`loss`](Self::loss), but with targets that are requested only after the first critic's forward pass.
    /// Returns `None` if there are no targets.
    pub(crate) fn loss_towards<'t>(
        &self,
        params: &Params,
        rows: &[f32],
        targets: impl FnOnce() -> Option<&'t [f32]>,
        gradient: &mut [f32],
    ) -> Option<f32> {
        let Self { networks, returns } = self;
        let (first, others) = networks.split_first()?;
        let (targets, of_first) = first.gradient_into(params, rows, gradient, |outputs, by| {
            let targets = targets()?;
            Some((targets, returns.loss(outputs, targets, by)))
        })?;
        let of_each = |critic: &Network| {
            critic.gradient_into(params, rows, gradient, |outputs, by| returns.loss(outputs, targets, by))
        };
        Some(of_first + others.iter().map(of_each).sum::<f32>())
    }
}

/// Values of actions, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct ActionValues {
    scratch: Vec<Scratch>,
    means: Vec<f32>,
    /// The lowest value of each row.
    pub(crate) least: Vec<f32>,
}

impl ActionValues {
    /// Returns the outputs of the first critic.
    pub(crate) fn outputs<'s>(&'s mut self, critics: &Critics, params: &Params, rows: &[f32]) -> &'s [f32] {
        self.scratch.resize_with(critics.networks.len(), Scratch::default);
        critics.networks[0].infer(params, rows, &mut self.scratch[0])
    }

    /// Returns the lowest value of each row among the critics numbered in `chosen`.
    pub(crate) fn least(
        &mut self,
        critics: &Critics,
        params: &Params,
        rows: &[f32],
        chosen: impl Iterator<Item = usize>,
    ) -> &[f32] {
        self.scratch.resize_with(critics.networks.len(), Scratch::default);
        self.least.clear();
        for number in chosen {
            let outputs = critics.networks[number].infer(params, rows, &mut self.scratch[number]);
            let values = critics.returns.values(outputs, &mut self.means);
            if self.least.is_empty() {
                self.least.extend_from_slice(values);
            } else {
                self.least.iter_mut().zip(values).for_each(|(least, value)| *least = least.min(*value));
            }
        }
        &self.least
    }
}

/// Writes the numbers of `count` different critics in random order, or of all critics in their own order.
pub(crate) fn subset(all: usize, count: usize, stream: &mut Stream, numbers: &mut Vec<usize>) {
    numbers.clear();
    numbers.extend(0..all);
    if count < all {
        for place in 0..count {
            numbers.swap(place, place + stream.below(all - place));
        }
        numbers.truncate(count);
    }
}

/// The gradient of values with respect to actions, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct ActionGradients {
    /// The gradients with respect to rows, for each critic.
    by_rows: Vec<Vec<f32>>,
    /// Values, and the gradients with respect to them, `[critics, batch]`.
    pub(crate) values: Vec<f32>,
    by_values: Vec<f32>,
    means: Vec<f32>,
    /// The gradient of mean(−Q) with respect to the actions, `[batch, dimensions]`.
    pub(crate) by_actions: Vec<f32>,
}

impl ActionGradients {
    /// Computes mean(−Q) of rows of observations and actions, and its gradient with respect to the actions, which are
    /// the last `dimensions` numbers of each row.
    pub(crate) fn find(
        &mut self,
        critics: &Critics,
        params: &Params,
        (rows, dimensions): (&[f32], usize),
        counts: CriticReduction,
    ) -> f32 {
        let ActionGradients { by_rows, values, by_values, means, by_actions } = self;
        let networks = match counts {
            CriticReduction::First => &critics.networks[..1],
            CriticReduction::Least | CriticReduction::Mean => &critics.networks[..],
        };
        by_rows.resize_with(networks.len(), Vec::new);
        by_rows.iter_mut().for_each(|by| by.resize(rows.len(), 0.0));
        values.clear();
        let mut nest = Nest { params, rows, returns: critics.returns, counts, values, by_values, means };
        let loss = nest.find(networks, by_rows, networks.len());
        by_actions.clear();
        let each = networks.first().map_or(1, Network::inputs);
        let [first, others @ ..] = &by_rows[..] else { return loss };
        for row in first.chunks_exact(each) {
            by_actions.extend_from_slice(&row[each - dimensions..]);
        }
        for other in others {
            for (sums, row) in by_actions.chunks_exact_mut(dimensions).zip(other.chunks_exact(each)) {
                sums.iter_mut().zip(&row[each - dimensions..]).for_each(|(sum, by)| *sum += by);
            }
        }
        loss
    }
}

/// A critic's backward pass must start only after the forward passes of all critics, so the call for each critic is
/// nested in the call for the previous one.
struct Nest<'a> {
    params: &'a Params,
    rows: &'a [f32],
    returns: Returns,
    counts: CriticReduction,
    values: &'a mut Vec<f32>,
    by_values: &'a mut Vec<f32>,
    means: &'a mut Vec<f32>,
}

impl Nest<'_> {
    fn find(&mut self, networks: &[Network], by_rows: &mut [Vec<f32>], all: usize) -> f32 {
        let ([network, inner @ ..], [by_row, inner_by @ ..]) = (networks, by_rows) else {
            return value_gradient(self.values, self.by_values, all, self.counts);
        };
        network.input_gradient_into(self.params, self.rows, by_row, |outputs, by_outputs| {
            self.values.extend_from_slice(self.returns.values(outputs, self.means));
            let loss = self.find(inner, inner_by, all);
            let batch = self.by_values.len() / all;
            let number = all - inner.len() - 1;
            self.returns.pull_back(
                outputs,
                &self.by_values[number * batch..(number + 1) * batch],
                by_outputs,
            );
            loss
        })
    }
}

/// Computes mean(−Q) of values `[critics, batch]`, and its gradient with respect to them.
#[expect(clippy::cast_precision_loss, reason = "the numbers of rows in a batch and of critics are small")]
fn value_gradient(values: &[f32], by_values: &mut Vec<f32>, critics: usize, counts: CriticReduction) -> f32 {
    let batch = values.len() / critics.max(1);
    let weight = 1.0 / batch.max(1) as f32;
    by_values.clear();
    by_values.resize(values.len(), 0.0);
    let mut loss = 0.0;
    for row in 0..batch {
        let of = |critic: usize| critic * batch + row;
        match counts {
            CriticReduction::Least | CriticReduction::First => {
                let less = |a: usize, b: usize| if values[of(a)] <= values[of(b)] { a } else { b };
                let least = of((1..critics).fold(0, less));
                loss -= values[least];
                by_values[least] = -weight;
            }
            CriticReduction::Mean => {
                for critic in 0..critics {
                    loss -= values[of(critic)] / critics as f32;
                    by_values[of(critic)] = -weight / critics as f32;
                }
            }
        }
    }
    loss * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critics_are_combined_by_minimum_or_mean() {
        let mut by = Vec::new();
        let values = [1.0, 5.0, 2.0, 3.0];
        assert_eq!(value_gradient(&values, &mut by, 2, CriticReduction::Least), -2.0);
        assert_eq!(by, [-0.5, 0.0, 0.0, -0.5]);
        assert_eq!(value_gradient(&values, &mut by, 2, CriticReduction::Mean), -2.75);
        assert_eq!(by, [-0.25; 4]);
    }

    #[test]
    fn subsets_contain_distinct_critics() {
        let (mut stream, mut numbers) = (Key::from_seed(1).stream(), Vec::new());
        subset(3, 3, &mut stream, &mut numbers);
        assert_eq!(numbers, [0, 1, 2]);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            subset(5, 2, &mut stream, &mut numbers);
            assert!(numbers.len() == 2 && numbers[0] != numbers[1]);
            numbers.iter().for_each(|number| seen[*number] += 1);
        }
        assert!(seen.iter().all(|count| (300..500).contains(count)), "{seen:?}");
    }
}
