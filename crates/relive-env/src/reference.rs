//! Reference returns for comparison.

use crate::error::{EnvError, Mismatch};

/// The returns of a random policy and an expert in an environment, which define the score of a return.
///
/// ```
/// use relive_env::ReferenceScores;
/// let scores = ReferenceScores::new(-1200.0, -200.0)?;
/// assert_eq!((scores.normalized(-1200.0), scores.normalized(-700.0), scores.normalized(-200.0)), (0.0, 50.0, 100.0));
/// assert!(ReferenceScores::of("CartPole-v1").is_some_and(|scores| scores.expert() == 500.0));
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceScores {
    random: f64,
    expert: f64,
}

impl ReferenceScores {
    /// The mean returns of a random policy and of an expert.
    ///
    /// # Errors
    /// [`EnvError::Setting`] unless both are finite and different.
    pub fn new(random: f64, expert: f64) -> Result<Self, EnvError> {
        if random.is_finite() && expert.is_finite() && random != expert {
            return Ok(Self { random, expert });
        }
        let expected = "two different finite returns, of a random policy and of an expert";
        Err(EnvError::Setting(Mismatch::boxed(
            "reference_scores",
            expected,
            format_args!("{random}, {expert}"),
        )))
    }

    /// Returns the reference of a native environment: the measured return of a random policy (200 episodes), and the
    /// optimum or a value near it. Returns `None` for other names, and for bsuite's environments, which have their own
    /// scores.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let (random, expert) = match name {
            "CartPole-v1" => (22.5, 500.0),
            "Acrobot-v1" => (-498.0, -80.0),
            "MountainCar-v0" => (-200.0, -100.0),
            "MountainCarContinuous-v0" => (-33.2, 95.0),
            "Pendulum-v1" => (-1206.5, -150.0),
            "control/acrobot-swingup" => (3.3, 1000.0),
            "control/cartpole-swingup" => (26.5, 1000.0),
            "control/pendulum-swingup" => (1.1, 1000.0),
            "pixels/catch" => (-0.78, 1.0),
            _ => return None,
        };
        Some(Self { random, expert })
    }

    /// Returns the mean return of a random policy.
    #[must_use]
    pub fn random(self) -> f64 {
        self.random
    }

    /// Returns the mean return of an expert.
    #[must_use]
    pub fn expert(self) -> f64 {
        self.expert
    }

    /// Returns the score of a return: 0 for the random policy's return, and 100 for the expert's, as in D4RL (Fu et al.
    /// 2020).
    #[must_use]
    pub fn normalized(self, episode_return: f64) -> f64 {
        100.0 * (episode_return - self.random) / (self.expert - self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reference_scores_are_refused() {
        for (random, expert) in [(1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            let error = ReferenceScores::new(random, expert).unwrap_err().to_string();
            assert!(error.contains("two different finite returns"), "{error}");
        }
    }

    #[test]
    fn a_random_policy_scores_about_nothing() {
        use crate::{Action, Buffer, RandomPolicy, make};
        let mut environment = make("CartPole-v1", 3).unwrap();
        let spec = environment.spec().clone();
        let mut policy = RandomPolicy::new(&spec.actions, 3);
        let mut observation = Buffer::for_nest(&spec.observations, 1).unwrap();
        let mut action = Buffer::for_nest(&spec.actions, 1).unwrap();
        let mut sum = 0.0;
        for _ in 0..100 {
            let mut step = environment.reset(observation.view_mut()).unwrap();
            while !step.last() {
                policy.act(action.view_mut()).unwrap();
                step = environment.step(Action::Nest(action.view()), observation.view_mut()).unwrap();
                sum += step.reward;
            }
        }
        let score = ReferenceScores::of("CartPole-v1").unwrap().normalized(sum / 100.0);
        assert!(score.abs() < 2.0, "{score}");
    }
}
