//! Epsilon-greedy exploration.

use relive_env::{Buffer, State};
use relive_nn::losses;
use relive_rl::{PolicyContext, Purpose, Result, RlError, Saveable};

use crate::actions::Discrete;
use crate::saved::{self, Saved, Visited};
use crate::streams::Streams;

/// Chooses the action with the highest value or, with probability ε, a random action. Ties are broken at random. In an
/// evaluation, ε is 0, and the first of several equally good actions is chosen.
#[derive(Debug)]
pub struct EpsilonGreedy {
    actions: Discrete,
    /// The ε of each row.
    epsilons: Vec<f64>,
    decay: Decay,
    explores: bool,
    streams: Streams,
}

/// The linear decay of the probability of a random action, from 1 to ε.
#[derive(Debug, Clone, Copy, Default)]
struct Decay {
    /// The number of steps in each row until ε is reached; 0 without decay.
    steps: u64,
    taken: u64,
}

impl EpsilonGreedy {
    /// Explores with the same ε, a probability, in all rows of a worker.
    ///
    /// # Errors
    /// [`Unsuited`](relive_rl::RlError::Unsuited): the environment does not take one discrete action.
    /// [`Setting`](relive_rl::RlError::Setting): ε is not a probability, or α is negative or not finite.
    pub fn new(epsilon: f64, context: &PolicyContext<'_>) -> Result<EpsilonGreedy> {
        EpsilonGreedy::spread(epsilon, 0.0, context)
    }

    /// Explores with a different ε in each row of a worker: row `i` of all `N` has `ε^(1 + α·i/(N − 1))` (Horgan et al.
    /// 2018).
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    #[expect(clippy::cast_precision_loss, reason = "rows are few")]
    pub fn spread(epsilon: f64, alpha: f64, context: &PolicyContext<'_>) -> Result<EpsilonGreedy> {
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(RlError::setting("epsilon", epsilon, "a probability, from 0 to 1"));
        }
        if !(alpha >= 0.0 && alpha.is_finite()) {
            return Err(RlError::setting("alpha", alpha, "finite and at least 0"));
        }
        let (actions, streams) = (Discrete::expect(context.spec)?, Streams::new(context.keys));
        let others = context.of.saturating_sub(1).max(1) as f64;
        let of_row = |row: usize| epsilon.powf(1.0 + alpha * (context.first + row) as f64 / others);
        let epsilons = (0..context.keys.len()).map(of_row).collect();
        let explores = context.purpose == Purpose::Training;
        Ok(EpsilonGreedy { actions, epsilons, decay: Decay::default(), explores, streams })
    }

    /// Begins with random actions only: the probability of a random action falls linearly from 1 to ε over this number
    /// of steps of all workers. Each worker counts its own steps, as a share of all steps.
    #[must_use]
    pub fn decaying(mut self, steps: u64, context: &PolicyContext<'_>) -> EpsilonGreedy {
        self.decay.steps = steps.div_ceil(context.of.max(1) as u64);
        self
    }

    /// Returns the number of actions.
    #[must_use]
    pub fn num_actions(&self) -> usize {
        self.actions.count
    }

    /// Returns the state: the random streams and, if there is one, the progress of the decay.
    pub(crate) fn parts(&mut self) -> Vec<Saved<'_>> {
        let mut parts = vec![Saved::Streams(&mut self.streams)];
        if self.decay.steps > 0 {
            parts.push(Saved::Fields(&mut self.decay));
        }
        parts
    }

    /// Writes an action to each row, given the values of all its actions, `[rows, actions]`.
    ///
    /// # Errors
    /// `actions` is not a buffer for one discrete action.
    ///
    /// # Panics
    /// The number of values is not the number of rows times the number of actions.
    pub fn act(&mut self, values: &[f32], actions: &mut Buffer) -> Result<()> {
        let Self { actions: discrete, epsilons, decay, explores, streams } = self;
        let expected = epsilons.len() * discrete.count;
        assert_eq!(values.len(), expected, "one value for each action of each of {} rows", epsilons.len());
        let random_share = decay.next();
        let rows = values.chunks_exact(discrete.count).zip(streams.each()).zip(epsilons);
        for (row, ((values, stream), epsilon)) in rows.enumerate() {
            let probability = *epsilon + (1.0 - *epsilon) * random_share;
            let action = if !*explores {
                first_of_greatest(values)
            } else if probability > 0.0 && stream.uniform() < probability {
                stream.below(discrete.count)
            } else {
                losses::greedy(values, stream)
            };
            discrete.write(action, actions, row)?;
        }
        Ok(())
    }
}

impl Saveable for EpsilonGreedy {
    fn save(&mut self) -> Vec<u8> {
        if self.decay.steps == 0 { self.streams.save() } else { saved::save(&mut self.parts()) }
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        if self.decay.steps == 0 {
            return self.streams.restore(bytes);
        }
        saved::restore("an ε-greedy choice", &mut self.parts(), bytes)
    }
}

impl Decay {
    /// Counts a step in each row, and returns the share of the way from ε to 1 that is left.
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    fn next(&mut self) -> f64 {
        let left = self.steps.saturating_sub(self.taken);
        self.taken = self.taken.saturating_add(1);
        if left == 0 { 0.0 } else { left as f64 / self.steps as f64 }
    }
}

impl Visited for Decay {
    fn visit(&mut self, state: &mut State<'_>) {
        state.field(&mut self.taken);
    }
}

fn first_of_greatest(values: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (action, value) in values.iter().enumerate() {
        if *value > best.1 {
            best = (action, *value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use relive_env::{ArraySpec, EnvironmentSpec};
    use relive_nn::Key;
    use relive_tensor::{DType, Nest};

    use super::*;

    #[test]
    fn the_share_of_random_actions_decays_over_the_steps_of_all_workers() {
        let spec = EnvironmentSpec::new(
            Nest::Leaf(ArraySpec::new("", DType::Float32, [1])),
            Nest::Leaf(ArraySpec::discrete("", 100)),
        );
        let keys: Vec<Key> = (0..50).map(|row| Key::from_seed(1).nth(row)).collect();
        let values = [vec![1.0], vec![0.0; 99]].concat().repeat(50);
        let context = PolicyContext { of: 100, ..PolicyContext::alone(&spec, Purpose::Training, &keys) };
        let make = || EpsilonGreedy::new(0.0, &context).unwrap().decaying(10_000, &context);
        let mut choice = make();
        let mut actions = Buffer::for_nest(&spec.actions, keys.len()).unwrap();
        let mut act = |choice: &mut EpsilonGreedy| {
            choice.act(&values, &mut actions).unwrap();
            actions.leaf::<i32>(0).unwrap().to_vec()
        };
        let mut shares = [0; 11];
        for step in 0..110 {
            let is_random = |action: &&i32| **action != 0;
            shares[step / 10] += act(&mut choice).iter().filter(is_random).count();
            if step == 60 {
                let saved = choice.save();
                choice = make();
                choice.restore(&saved).unwrap();
            }
        }
        for (tenth, random) in shares.into_iter().take(10).enumerate() {
            let expected = 500.0 * (0.955 - 0.1 * tenth as f64) * 0.99;
            assert!((random as f64 - expected).abs() < 55.0, "{random} random actions, not about {expected}");
        }
        assert_eq!(shares[10], 0, "the rest is greedy");
    }

    #[test]
    fn ties_are_broken_randomly_when_exploring_and_by_index_when_evaluating() {
        let spec = EnvironmentSpec::new(
            Nest::Leaf(ArraySpec::new("", DType::Float32, [1])),
            Nest::Leaf(ArraySpec::discrete("", 3)),
        );
        let keys: Vec<Key> = (0..64).map(|row| Key::from_seed(1).nth(row)).collect();
        let taken = |purpose| {
            let context = PolicyContext::alone(&spec, purpose, &keys);
            let mut actions = Buffer::for_nest(&spec.actions, keys.len()).unwrap();
            let values: Vec<f32> = keys.iter().flat_map(|_| [0.5, 1.0, 1.0]).collect();
            EpsilonGreedy::new(0.0, &context).unwrap().act(&values, &mut actions).unwrap();
            actions.leaf::<i32>(0).unwrap().to_vec()
        };
        let explored = taken(Purpose::Training);
        assert!(explored.contains(&1) && explored.contains(&2) && !explored.contains(&0), "{explored:?}");
        let rows = |first| {
            let context =
                PolicyContext { first, of: 3, ..PolicyContext::alone(&spec, Purpose::Training, &keys[..2]) };
            EpsilonGreedy::spread(0.5, 2.0, &context).unwrap().epsilons
        };
        assert_eq!((rows(0), rows(1)), (vec![0.5, 0.25], vec![0.25, 0.125]), "by the rows of all workers");
        assert!(taken(Purpose::Evaluation).iter().all(|action| *action == 1));
    }

    #[test]
    fn epsilon_is_a_probability() {
        let spec = EnvironmentSpec::new(
            Nest::Leaf(ArraySpec::new("", DType::Float32, [1])),
            Nest::Leaf(ArraySpec::discrete("", 3)),
        );
        let context = PolicyContext::alone(&spec, Purpose::Training, &[]);
        let refused =
            |epsilon, alpha| EpsilonGreedy::spread(epsilon, alpha, &context).unwrap_err().to_string();
        assert_eq!(refused(5.0, 0.0), "epsilon is 5, but it must be a probability, from 0 to 1");
        assert_eq!(refused(f64::NAN, 0.0), "epsilon is NaN, but it must be a probability, from 0 to 1");
        assert_eq!(refused(0.5, -1.0), "alpha is -1, but it must be finite and at least 0");
    }
}
