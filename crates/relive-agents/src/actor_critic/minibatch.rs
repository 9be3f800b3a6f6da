//! Parts of a rollout, and the metrics of learning from them.

use relive_env::State;

use super::experience::Experience;
use super::loss::PolicyMetrics;

/// A part of a rollout, in reused memory.
#[derive(Debug, Default, Clone)]
pub(super) struct Minibatch {
    pub(super) rows: Vec<f32>,
    pub(super) choices: Vec<usize>,
    pub(super) drawn: Vec<f32>,
    pub(super) old: Vec<f32>,
    pub(super) advantages: Vec<f32>,
    pub(super) returns: Vec<f32>,
    pub(super) gradient: Vec<f32>,
}

/// The summed metrics of minibatches.
#[derive(Debug, Default)]
pub(crate) struct MetricSums {
    policy: PolicyMetrics,
    value_loss: f32,
    pub(crate) minibatches: u64,
    /// The sum of the cells of all minibatches.
    pub(crate) cells: u64,
}

impl Minibatch {
    /// Replaces the contents with these cells.
    pub(super) fn fill(&mut self, experience: &Experience, cells: &[usize], width: usize) {
        fn gather<T: Copy>(out: &mut Vec<T>, from: &[T], cells: &[usize], width: usize) {
            out.clear();
            for cell in cells {
                out.extend_from_slice(&from[cell * width..(cell + 1) * width]);
            }
        }
        let per_cell = |len: usize| len / experience.log_probabilities.len().max(1);
        let (choices, numbers) = (per_cell(experience.choices.len()), per_cell(experience.drawn.len()));
        gather(&mut self.rows, &experience.rows, cells, width);
        gather(&mut self.choices, &experience.choices, cells, choices);
        gather(&mut self.drawn, &experience.drawn, cells, numbers);
        gather(&mut self.old, &experience.log_probabilities, cells, 1);
        gather(&mut self.advantages, &experience.found.advantages, cells, 1);
        gather(&mut self.returns, &experience.found.returns, cells, 1);
    }
}

impl MetricSums {
    pub(crate) fn add(&mut self, found: PolicyMetrics, of_values: f32, cells: usize) {
        self.policy.loss += found.loss;
        self.policy.entropy += found.entropy;
        self.policy.divergence += found.divergence;
        self.policy.clipped += found.clipped;
        self.value_loss += of_values;
        self.minibatches += 1;
        self.cells += cells as u64;
    }

    /// Visits all fields, to send the minibatch from a worker to the learner.
    pub(super) fn visit(&mut self, state: &mut State<'_>) {
        let PolicyMetrics { loss, entropy, divergence, clipped } = &mut self.policy;
        [loss, entropy, divergence, clipped].into_iter().for_each(|number| state.field(number));
        state.field(&mut self.value_loss);
        state.field(&mut self.minibatches);
        state.field(&mut self.cells);
    }

    #[expect(clippy::cast_precision_loss, reason = "minibatches of a rollout")]
    pub(crate) fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mean = |sum: f32| f64::from(sum) / self.minibatches.max(1) as f64;
        vec![
            ("policy_loss", mean(self.policy.loss)),
            ("value_loss", mean(self.value_loss)),
            ("entropy", mean(self.policy.entropy)),
            ("approx_kl", mean(self.policy.divergence)),
            ("clip_fraction", mean(self.policy.clipped)),
        ]
    }
}

/// Normalizes numbers to mean 0 and standard deviation 1; a single number is left unchanged.
#[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
pub(crate) fn standardize(numbers: &mut [f32]) {
    if numbers.len() < 2 {
        return;
    }
    let count = numbers.len() as f32;
    let mean = numbers.iter().sum::<f32>() / count;
    let squares: f32 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let scale = 1.0 / ((squares / (count - 1.0)).sqrt() + 1e-8);
    numbers.iter_mut().for_each(|number| *number = (*number - mean) * scale);
}
