//! Numbers that nothing can be learned from.

use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};
use relive_rl::RlError;
use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{RunOptions, train};

/// Catch, whose step of a number goes wrong.
struct Broken {
    environment: Box<dyn Environment>,
    steps: u64,
    at: u64,
    reward: f64,
    pixel: f32,
}

impl Environment for Broken {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let mut step = self.environment.step(action, observation.reborrow())?;
        self.steps += 1;
        if self.steps == self.at {
            step.reward = self.reward;
            observation.leaf_mut::<f32>(0)?[7] = self.pixel;
        }
        Ok(step)
    }
}

fn error_of(config: &DqnConfig, actors: usize, reward: f64, pixel: f32) -> RlError {
    let options =
        RunOptions { environment: "broken".to_owned(), env_steps: 2_000, actors, ..RunOptions::default() };
    let make = |seed| {
        let environment = relive_env::make("catch/0", seed)?;
        Ok(Box::new(Broken { environment, steps: 0, at: 301, reward, pixel }) as Box<dyn Environment>)
    };
    train(config, &options, &make, &mut |_| {}).unwrap_err()
}

#[test]
fn numbers_that_are_not_finite_are_told_with_their_place() {
    let config = DqnConfig { batch_size: 16, min_replay_size: 50, ..DqnConfig::default() };
    for actors in [0, 1] {
        for (reward, pixel, expected) in [
            (0.0, f32::NAN, "broken, step 4 of episode 34: the observation at [1, 2] is NaN; "),
            (0.0, f32::NEG_INFINITY, "broken, step 4 of episode 34: the observation at [1, 2] is -inf; "),
            (f64::INFINITY, 0.0, "broken, step 4 of episode 34: the reward is inf; "),
        ] {
            let error = error_of(&config, actors, reward, pixel);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}

#[test]
fn a_learner_that_diverges_says_so() {
    let wild = DqnConfig {
        batch_size: 16,
        min_replay_size: 50,
        learning_rate: 1e36,
        max_abs_reward: 1.0,
        ..DqnConfig::default()
    };
    let error = error_of(&wild, 0, 0.0, 0.0);
    assert!(matches!(error, RlError::Diverged { .. }), "{error}");
    assert!(error.to_string().contains("learning_rate"), "{error}");
}
