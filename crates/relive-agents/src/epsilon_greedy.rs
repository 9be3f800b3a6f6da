//! Exploring by chance.

use relive_env::Buffer;
use relive_nn::losses;
use relive_rl::{Purpose, Result, Saveable, Seat};

use crate::actions::Discrete;
use crate::streams::Streams;

/// Takes the action of the greatest value, or with probability ε any. Among actions of the same value each is as likely as the others; in an
/// evaluation the first is taken, and ε is 0.
#[derive(Debug)]
pub struct EpsilonGreedy {
    actions: Discrete,
    epsilon: f64,
    explores: bool,
    streams: Streams,
}

impl EpsilonGreedy {
    /// For the rows of a worker.
    ///
    /// # Errors
    /// [`Unsuited`](relive_rl::RlError::Unsuited): the environment does not take one discrete action.
    pub fn new(epsilon: f64, seat: &Seat<'_>) -> Result<EpsilonGreedy> {
        let (actions, streams) = (Discrete::expect(seat.spec)?, Streams::new(seat.keys));
        Ok(EpsilonGreedy { actions, epsilon, explores: seat.purpose == Purpose::Training, streams })
    }

    /// How many actions there are.
    #[must_use]
    pub fn num_actions(&self) -> usize {
        self.actions.count
    }

    /// Writes an action to each row, by the values of all actions there: `[rows, actions]`.
    ///
    /// # Errors
    /// `actions` is no buffer for one discrete action.
    pub fn act(&mut self, values: &[f32], actions: &mut Buffer) -> Result<()> {
        let Self { actions: discrete, epsilon, explores, streams } = self;
        for (row, (values, stream)) in values.chunks_exact(discrete.count).zip(streams.each()).enumerate() {
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
    fn equal_values_are_explored_and_the_first_of_them_is_shown() {
        let spec = EnvironmentSpec::new(
            Nest::Leaf(ArraySpec::new("", DType::Float32, [1])),
            Nest::Leaf(ArraySpec::discrete("", 3)),
        );
        let keys: Vec<Key> = (0..64).map(|row| Key::from_seed(1).nth(row)).collect();
        let taken = |purpose| {
            let seat = Seat { spec: &spec, purpose, keys: &keys };
            let mut actions = Buffer::for_nest(&spec.actions, keys.len()).unwrap();
            let values: Vec<f32> = keys.iter().flat_map(|_| [0.5, 1.0, 1.0]).collect();
            EpsilonGreedy::new(0.0, &seat).unwrap().act(&values, &mut actions).unwrap();
            actions.leaf::<i32>(0).unwrap().to_vec()
        };
        let explored = taken(Purpose::Training);
        assert!(explored.contains(&1) && explored.contains(&2) && !explored.contains(&0), "{explored:?}");
        assert!(taken(Purpose::Evaluation).iter().all(|action| *action == 1));
    }
}
