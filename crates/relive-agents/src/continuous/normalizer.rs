//! Normalized observations.

use relive_env::State;
use relive_rl::learners::Peers;
use relive_rl::{Result, RlError, Weights};
use relive_tensor::Tensor;

use crate::actor_critic::Moments;
use crate::saved::Visited;

/// Normalized observations are clipped to ± this value.
const MAX_OBSERVATION: f32 = 10.0;
const MEAN: &str = "observations/mean";
const INVERSE_STD: &str = "observations/inverse_std";

/// Normalizes observations to mean 0 and standard deviation 1, with the statistics of all batches so far. The
/// statistics are published together with the weights.
#[derive(Debug)]
pub(crate) struct Normalizer {
    moments: Moments,
    mean: Vec<f32>,
    inverse_std: Vec<f32>,
}

impl Normalizer {
    /// Creates a normalizer for rows with this width. It leaves rows unchanged until the first call to
    /// [`add`](Self::add).
    pub(crate) fn new(width: usize) -> Normalizer {
        Normalizer { moments: Moments::new(width), mean: vec![0.0; width], inverse_std: vec![1.0; width] }
    }

    /// Adds the rows of all learners to the statistics.
    ///
    /// # Errors
    /// Another learner has been lost.
    pub(crate) fn add(&mut self, rows: &[f32], peers: &Peers) -> Result<()> {
        self.moments.add_of_all(rows, peers)?;
        self.moments.write(&mut self.mean, &mut self.inverse_std);
        Ok(())
    }

    /// Normalizes rows in place.
    pub(crate) fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.mean.len().max(1)) {
            for ((value, mean), inverse_std) in row.iter_mut().zip(&self.mean).zip(&self.inverse_std) {
                *value = ((*value - mean) * inverse_std).clamp(-MAX_OBSERVATION, MAX_OBSERVATION);
            }
        }
    }

    /// Returns these weights together with the statistics, as one `version`.
    ///
    /// # Errors
    /// Observations have more numbers than a tensor can hold.
    pub(crate) fn published(&self, weights: &Weights, version: u64) -> Result<Weights> {
        let mut parts = weights.parts().to_vec();
        for (name, numbers) in [(MEAN, &self.mean), (INVERSE_STD, &self.inverse_std)] {
            let width = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let tensor = Tensor::from_slice(numbers, [width]).map_err(|error| RlError::State {
                what: "the weights of a policy",
                reason: error.to_string(),
            })?;
            parts.push((name.to_owned(), tensor));
        }
        Ok(Weights::new(version, parts))
    }

    /// Loads [published](Self::published) statistics.
    ///
    /// # Errors
    /// [`State`](RlError::State): the weights contain no statistics, or contain statistics of a different width.
    pub(crate) fn load(&mut self, weights: &Weights) -> Result<()> {
        for (name, own) in [(MEAN, &mut self.mean), (INVERSE_STD, &mut self.inverse_std)] {
            let found = weights.part(name).and_then(|part| part.to_vec::<f32>().ok());
            *own = found.filter(|found| found.len() == own.len()).ok_or_else(|| RlError::State {
                what: "the weights of a policy",
                reason: format!("{name} is missing, or does not have {} numbers", own.len()),
            })?;
        }
        Ok(())
    }
}

impl Visited for Normalizer {
    fn visit(&mut self, state: &mut State<'_>) {
        self.moments.visit(state);
        state.fields(&mut self.mean);
        state.fields(&mut self.inverse_std);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_are_normalized_and_statistics_are_part_of_the_weights() {
        let mut normalizer = Normalizer::new(2);
        let mut rows = [1.0, -4.0, 3.0, -2.0];
        normalizer.add(&rows, &Peers::alone()).unwrap();
        normalizer.apply(&mut rows);
        assert!(
            rows.iter().zip([-1.0, -1.0, 1.0, 1.0]).all(|(got, want)| (got - want).abs() < 1e-5),
            "{rows:?}"
        );
        let weights = normalizer.published(&Weights::new(2, []), 3).unwrap();
        let mut other = Normalizer::new(2);
        other.load(&weights).unwrap();
        assert_eq!(
            (weights.version(), &other.mean, &other.inverse_std),
            (3, &normalizer.mean, &normalizer.inverse_std)
        );
        assert!(Normalizer::new(3).load(&weights).is_err() && other.load(&Weights::new(3, [])).is_err());
    }
}
