//! Running means and variances.

use relive_env::State;
use relive_rl::Result;
use relive_rl::learners::Peers;

/// Keeps a standard deviation away from zero.
const EPSILON: f64 = 1e-8;

/// The running mean and variance of numbers, column by column, updated a batch at a time by the formula of Chan et al.
/// (1979).
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    count: f64,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Moments {
    /// Creates empty statistics for rows with this width.
    pub(crate) fn new(width: usize) -> Moments {
        Moments { count: 0.0, mean: vec![0.0; width], variance: vec![1.0; width] }
    }

    /// Adds rows, concatenated in `numbers`.
    pub(crate) fn add(&mut self, numbers: &[f32]) {
        let added = self.of(numbers);
        self.merge(&added);
    }

    /// Adds the rows of all learners, in the order of their ranks.
    ///
    /// # Errors
    /// Another learner has been lost.
    pub(crate) fn add_of_all(&mut self, numbers: &[f32], peers: &Peers) -> Result<()> {
        let own = self.of(numbers);
        if peers.is_alone() {
            self.merge(&own);
            return Ok(());
        }
        let width = self.mean.len();
        let sums = [&[own.count], own.mean.as_slice(), own.variance.as_slice()].concat();
        for of_learner in peers.gather(&sums)? {
            let (mean, variance) = of_learner[1..].split_at(width);
            let (mean, variance) = (mean.to_vec(), variance.to_vec());
            self.merge(&Moments { count: of_learner[0], mean, variance });
        }
        Ok(())
    }

    /// Returns the moments of these rows alone.
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    fn of(&self, numbers: &[f32]) -> Moments {
        let width = self.mean.len();
        let mut moments = Moments::new(width);
        let rows = numbers.len() / width.max(1);
        if rows == 0 {
            return moments;
        }
        moments.count = rows as f64;
        for column in 0..width {
            let of_column = || numbers.iter().skip(column).step_by(width).map(|number| f64::from(*number));
            let mean = of_column().sum::<f64>() / moments.count;
            moments.mean[column] = mean;
            moments.variance[column] =
                of_column().map(|number| (number - mean).powi(2)).sum::<f64>() / moments.count;
        }
        moments
    }

    fn merge(&mut self, other: &Moments) {
        let (added, total) = (other.count, self.count + other.count);
        if added == 0.0 {
            return;
        }
        let own = self.mean.iter_mut().zip(&mut self.variance);
        for ((own_mean, own_variance), (mean, variance)) in own.zip(other.mean.iter().zip(&other.variance)) {
            let apart = mean - *own_mean;
            let squares =
                *own_variance * self.count + variance * added + apart * apart * self.count * added / total;
            *own_mean += apart * added / total;
            *own_variance = squares / total;
        }
        self.count = total;
    }

    /// Writes the means and the inverse standard deviations.
    #[expect(clippy::cast_possible_truncation, reason = "networks take float32")]
    pub(crate) fn write(&self, mean: &mut [f32], inverse_std: &mut [f32]) {
        mean.iter_mut().zip(&self.mean).for_each(|(to, mean)| *to = *mean as f32);
        inverse_std
            .iter_mut()
            .zip(&self.variance)
            .for_each(|(to, variance)| *to = (1.0 / (variance + EPSILON).sqrt()) as f32);
    }

    pub(crate) fn visit(&mut self, state: &mut State<'_>) {
        state.field(&mut self.count);
        state.fields(&mut self.mean);
        state.fields(&mut self.variance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_depend_on_the_batch_size() {
        let numbers = [1.0, -1.0, 2.0, 0.0, 4.0, 3.0, 9.0, 6.0];
        let (mut mean, mut inverse) = ([0.0; 2], [0.0; 2]);
        for cuts in [vec![8], vec![2, 6], vec![4, 2, 2]] {
            let (mut moments, mut rest) = (Moments::new(2), &numbers[..]);
            for cut in cuts {
                let (batch, others) = rest.split_at(cut);
                moments.add(batch);
                rest = others;
            }
            moments.write(&mut mean, &mut inverse);
            assert_eq!(mean, [4.0, 2.0]);
            let expected = [9.5_f32, 7.5].map(|variance| 1.0 / variance.sqrt());
            assert!(inverse.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-6), "{inverse:?}");
        }
    }
}
