//! Epsilon-greedy exploration.

use relive_env::Buffer;
use relive_nn::losses;
use relive_rl::{PolicyContext, Purpose, Result, Saveable};

use crate::actions::Discrete;
use crate::streams::Streams;

/// Chooses the action with the highest value or, with probability ε, a random action. Ties are broken at random. In an
/// evaluation, ε is 0, and the first of several equally good actions is chosen.
#[derive(Debug)]
pub struct EpsilonGreedy {
    actions: Discrete,
    /// The ε of each row.
    epsilons: Vec<f64>,
    explores: bool,
    streams: Streams,
}

impl EpsilonGreedy {
    /// Explores with the same ε in all rows of a worker.
    ///
    /// # Errors
    /// [`Unsuited`](relive_rl::RlError::Unsuited): the environment does not take one discrete action.
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
        let (actions, streams) = (Discrete::expect(context.spec)?, Streams::new(context.keys));
        let others = context.of.saturating_sub(1).max(1) as f64;
        let of_row = |row: usize| epsilon.powf(1.0 + alpha * (context.first + row) as f64 / others);
        let epsilons = (0..context.keys.len()).map(of_row).collect();
        Ok(EpsilonGreedy { actions, epsilons, explores: context.purpose == Purpose::Training, streams })
    }

    /// Returns the number of actions.
    #[must_use]
    pub fn num_actions(&self) -> usize {
        self.actions.count
    }

    /// Returns the random streams, which are the policy's only state.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Writes an action to each row, given the values of all its actions, `[rows, actions]`.
    ///
    /// # Errors
    /// `actions` is not a buffer for one discrete action.
    pub fn act(&mut self, values: &[f32], actions: &mut Buffer) -> Result<()> {
        let Self { actions: discrete, epsilons, explores, streams } = self;
        let rows = values.chunks_exact(discrete.count).zip(streams.each()).zip(epsilons);
        for (row, ((values, stream), epsilon)) in rows.enumerate() {
            let action = if !*explores {
                first_of_greatest(values)
            } else if *epsilon > 0.0 && stream.uniform() < *epsilon {
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
        self.streams.save()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.streams.restore(bytes)
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
}
