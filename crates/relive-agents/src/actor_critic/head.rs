//! Distributions of actions, parameterized by the outputs of a policy network.

use std::ops::Range;

use relive_env::{ArraySpec, Buffer, Domain, EnvironmentSpec};
use relive_nn::Stream;
use relive_rl::{Result, RlError};
use relive_tensor::{DType, Nest};

use super::loss::{HALF_LOG_TWO_PI, softmax};
use crate::actions::describe;
use crate::choices::Choices;

/// The distribution that the outputs of the policy network parameterize.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Head {
    /// One or several independent choices: the outputs are the logits of all choices.
    Categorical(Choices),
    /// Independent normal distributions: the outputs are means, and one standard deviation per dimension is learned as
    /// a parameter outside the network. The distributions are for actions that are scaled so that their bounds are −1
    /// and 1. Actions beyond the bounds are clipped before they are passed to the environment.
    Normal { low: Vec<f32>, high: Vec<f32> },
}

impl Head {
    /// Creates the head for an environment with one discrete action, or with one array of choices or of float32.
    pub(crate) fn of(spec: &EnvironmentSpec) -> Result<Head> {
        if let Some(choices) = Choices::of(spec) {
            return Ok(Head::Categorical(choices));
        }
        let leaf = match &spec.actions {
            Nest::Leaf(leaf) if leaf.dtype == DType::Float32 => leaf,
            others => {
                let expected = "one discrete action, one array of integers in ranges of at most 65,536 values, or one \
                                array of float32";
                let is_double = others.leaves().any(|leaf| leaf.dtype == DType::Float64);
                let advice =
                    if is_double { "; the wrapper SinglePrecision converts them to float32" } else { "" };
                return Err(RlError::Unsuited { expected, got: format!("{}{advice}", describe(others)) });
            }
        };
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for element in 0..leaf.num_elements()? {
            let (least, most) = bounds(leaf, element);
            low.push(least);
            high.push(most);
        }
        Ok(Head::Normal { low, high })
    }

    /// Returns the number of network outputs for an observation.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Head::Categorical(choices) => choices.counts().iter().sum(),
            Head::Normal { low, .. } => low.len(),
        }
    }

    /// Computes the log-probabilities of the actions taken, given the rows of outputs. The actions are either
    /// continuous draws or the values of choices.
    pub(crate) fn log_probabilities(
        &self,
        (outputs, log_std): (&[f32], &[f32]),
        (chosen, drawn): (&[usize], &[f32]),
        out: &mut Vec<f32>,
    ) {
        out.clear();
        let rows = outputs.chunks_exact(self.outputs().max(1));
        match self {
            Head::Categorical(choices) => {
                let mut probabilities = vec![0.0; self.outputs()];
                let counts = choices.counts();
                out.extend(rows.zip(chosen.chunks_exact(counts.len())).map(|(logits, values)| {
                    let of_choice = |(place, value): (Range<usize>, &usize)| {
                        let logits = &logits[place];
                        let [most, log_total] = softmax(logits, &mut probabilities[..logits.len()]);
                        logits.get(*value).map_or(f32::NAN, |logit| logit - most - log_total)
                    };
                    Choices::places(counts).zip(values).map(of_choice).sum::<f32>()
                }));
            }
            Head::Normal { .. } => {
                let drawn = drawn.chunks_exact(self.outputs().max(1));
                out.extend(rows.zip(drawn).map(|(means, drawn)| {
                    let numbers = drawn.iter().zip(means).zip(log_std);
                    let densities =
                        numbers.map(|((drawn, mean), log_std)| log_density(*drawn, *mean, *log_std));
                    densities.sum::<f32>()
                }));
            }
        }
    }

    /// Draws an action from a row of outputs, or uses the most likely action if there is no stream. Writes the action
    /// to the row of `actions`, and the action before scaling and clipping to `drawn`. Returns the action's
    /// log-probability.
    pub(crate) fn act(
        &self,
        (outputs, log_std): (&[f32], &[f32]),
        mut stream: Option<&mut Stream>,
        (actions, row): (&mut Buffer, usize),
        drawn: &mut [f32],
    ) -> Result<f32> {
        match self {
            Head::Categorical(choices) => {
                let mut log_probability = 0.0;
                let values = Choices::places(choices.counts()).map(|place| {
                    let (chosen, of_choice) = choose(&outputs[place], stream.as_deref_mut());
                    log_probability += of_choice;
                    chosen
                });
                choices.write(values, actions, row);
                Ok(log_probability)
            }
            Head::Normal { low, high } => {
                let log_probability = draw(outputs, log_std, stream, drawn);
                let width = drawn.len();
                let clipped = &mut actions.leaf_mut::<f32>(0)?[row * width..(row + 1) * width];
                for (((to, drawn), low), high) in clipped.iter_mut().zip(&*drawn).zip(low).zip(high) {
                    *to = within(*low, *high, *drawn);
                }
                Ok(log_probability)
            }
        }
    }
}

/// Bounds at least this far from their center are treated as missing: an environment that gives the largest numbers of
/// its type as bounds does not expect actions of this size.
pub(crate) const WIDEST: f32 = 1e6;

/// Returns an action, scaled from −1..1 to the bounds if both exist, and clipped.
fn within(low: f32, high: f32, drawn: f32) -> f32 {
    let half = high / 2.0 - low / 2.0;
    let action = if half < WIDEST { f32::midpoint(low, high) + half * drawn } else { drawn };
    action.clamp(low, high)
}

/// Returns the log-probability of one dimension of a drawn action.
fn log_density(drawn: f32, mean: f32, log_std: f32) -> f32 {
    let z = (drawn - mean) * (-log_std).exp();
    -0.5 * z * z - log_std - HALF_LOG_TWO_PI
}

/// Chooses a value from the logits of all values. Returns the value with its log-probability.
fn choose(logits: &[f32], stream: Option<&mut Stream>) -> (usize, f32) {
    let (mut best, mut most) = (0, f32::NEG_INFINITY);
    for (action, logit) in logits.iter().enumerate() {
        if *logit > most {
            (best, most) = (action, *logit);
        }
    }
    let total: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
    let chosen = match stream {
        None => best,
        Some(stream) => {
            #[expect(clippy::cast_possible_truncation, reason = "a probability")]
            let mut left = stream.uniform() as f32 * total;
            let found = logits.iter().position(|logit| {
                left -= (logit - most).exp();
                left < 0.0
            });
            found.unwrap_or(best)
        }
    };
    let logit = logits.get(chosen).copied().unwrap_or(f32::NAN);
    (chosen, logit - most - total.ln())
}

/// Draws an action from its means and the logarithms of its standard deviations. Returns the log-probability of the
/// whole action.
fn draw(means: &[f32], log_std: &[f32], stream: Option<&mut Stream>, drawn: &mut [f32]) -> f32 {
    let Some(stream) = stream else {
        drawn.copy_from_slice(means);
        return log_std.iter().map(|log_std| -log_std - HALF_LOG_TWO_PI).sum();
    };
    let mut log_probability = 0.0;
    for ((to, mean), log_std) in drawn.iter_mut().zip(means).zip(log_std) {
        #[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
        let z = stream.normal() as f32;
        *to = mean + log_std.exp() * z;
        log_probability -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI;
    }
    log_probability
}

#[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
fn bounds(leaf: &ArraySpec, element: usize) -> (f32, f32) {
    match &leaf.domain {
        Domain::Any | Domain::Discrete(_) => (f32::NEG_INFINITY, f32::INFINITY),
        Domain::Bounded { .. } => {
            let (low, high) = leaf.bounds(element);
            (low as f32, high as f32)
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_nn::Key;

    use super::*;

    #[test]
    fn action_frequencies_match_the_logits() {
        let logits = [0.0, 3.0_f32.ln(), f32::NEG_INFINITY];
        let (mut counts, mut stream) = ([0_u32; 3], Key::from_seed(1).stream());
        for _ in 0..4000 {
            let (chosen, log_probability) = choose(&logits, Some(&mut stream));
            counts[chosen] += 1;
            assert!((log_probability.exp() - [0.25, 0.75, 0.0][chosen]).abs() < 1e-6);
        }
        assert!((900..1100).contains(&counts[0]) && counts[2] == 0, "{counts:?}");
        assert_eq!(choose(&logits, None).0, 1);
    }

    #[test]
    fn several_choices_are_drawn_independently() {
        let leaf = ArraySpec::new("", DType::Int64, [2]).bounded_each(vec![0.0, 5.0], vec![1.0, 7.0]);
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), leaf);
        let head = Head::of(&spec).unwrap();
        let mut actions = Buffer::for_nest(&spec.actions, 1).unwrap();
        let (mut counts, mut stream) = ([[0_u32; 3]; 2], Key::from_seed(3).stream());
        let outputs = [0.0, 1.0_f32.exp(), 0.0, 2.0_f32.ln(), 1.0];
        for _ in 0..4000 {
            let found = head.act((&outputs, &[]), Some(&mut stream), (&mut actions, 0), &mut []).unwrap();
            let numbers = actions.leaf::<i64>(0).unwrap();
            let values = [numbers[0], numbers[1] - 5].map(|value| usize::try_from(value).unwrap());
            counts[values[0]][values[1]] += 1;
            let mut again = Vec::new();
            head.log_probabilities((&outputs, &[]), (&values, &[]), &mut again);
            assert!((found - again[0]).abs() < 1e-6);
        }
        let of_first: u32 = counts[0].iter().sum();
        let expected = 4000.0 / (1.0 + 1.0_f32.exp().exp());
        assert!((f64::from(of_first) - f64::from(expected)).abs() < 60.0, "{counts:?} {expected}");
        for row in counts {
            let share = f64::from(row[2]) / f64::from(row.iter().sum::<u32>());
            assert!((share - 0.4754).abs() < 0.08, "{counts:?}");
        }
        head.act((&outputs, &[]), None, (&mut actions, 0), &mut []).unwrap();
        assert_eq!(actions.leaf::<i64>(0).unwrap(), [1, 7]);
    }

    #[test]
    fn continuous_actions_are_normal_and_clipped_to_the_bounds() {
        let spec = EnvironmentSpec::new(
            ArraySpec::new("", DType::Float32, [1]),
            ArraySpec::new("", DType::Float32, [1]).bounded(-1.0, 1.0),
        );
        let head = Head::of(&spec).unwrap();
        let mut actions = Buffer::for_nest(&spec.actions, 2).unwrap();
        let (mut drawn, mut stream) = ([0.0], Key::from_seed(2).stream());
        let (mut sum, mut clipped) = (0.0, 0);
        for _ in 0..4000 {
            let outputs = (&[0.5][..], &[0.0][..]);
            let log_probability =
                head.act(outputs, Some(&mut stream), (&mut actions, 1), &mut drawn).unwrap();
            let expected = -0.5 * (drawn[0] - 0.5).powi(2) - HALF_LOG_TWO_PI;
            assert!((log_probability - expected).abs() < 1e-5);
            sum += drawn[0];
            clipped += i32::from(actions.leaf::<f32>(0).unwrap()[1] != drawn[0]);
        }
        assert!((sum / 4000.0 - 0.5).abs() < 0.05 && (1300..1700).contains(&clipped), "{sum} {clipped}");
        assert_eq!(actions.leaf::<f32>(0).unwrap()[0], 0.0);
    }

    #[test]
    fn actions_are_scaled_to_their_bounds() {
        assert_eq!(
            [-2.0, -1.0, 0.0, 1.0, 2.0].map(|drawn| within(-3.0, 0.5, drawn)),
            [-3.0, -3.0, -1.25, 0.5, 0.5]
        );
        assert_eq!([-2.0, 2.0].map(|drawn| within(-1.0, 1.0, drawn)), [-1.0, 1.0]);
        for (low, high) in [(f32::NEG_INFINITY, f32::INFINITY), (f32::MIN, f32::MAX), (-0.5, f32::INFINITY)] {
            assert_eq!([-0.5, 7.5].map(|drawn| within(low, high, drawn)), [-0.5, 7.5]);
        }
    }

    #[test]
    fn unsupported_action_spaces_are_refused_with_the_supported_ones() {
        let actions = Nest::dict([("turn", ArraySpec::discrete("", 3)), ("go", ArraySpec::discrete("", 2))]);
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions);
        let text = Head::of(&spec).unwrap_err().to_string();
        assert!(text.contains("one array of float32") && text.contains("a number from 0 to 1"), "{text}");
        let double = Nest::Leaf(ArraySpec::new("", DType::Float64, [1]).bounded(-1.0, 1.0));
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), double);
        let text = Head::of(&spec).unwrap_err().to_string();
        assert!(text.contains("float64 (1,) in -1..=1; the wrapper SinglePrecision"), "{text}");
    }
}
