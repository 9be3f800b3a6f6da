//! Observations together with the preceding action and reward.

use relive_tensor::{DType, Nest};

use crate::buffer::Action;
use crate::buffer::{Buffer, ViewMut};
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::{ArraySpec, Domain, EnvironmentSpec};
use crate::timestep::TimeStep;

/// Adds the last action and reward to the observation, as a named tuple `OAR` of `observation`, `action` and `reward`.
/// On a FIRST, action and reward are zeros.
#[derive(Clone, Debug)]
pub struct ObservationActionReward<E> {
    environment: E,
    spec: EnvironmentSpec,
    observation: Buffer,
    action: Buffer,
    /// A buffer with the layout of the observations.
    like: Buffer,
}

impl<E: Environment> ObservationActionReward<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Wraps the environment with these three-part observations.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if rewards are neither float32 nor float64, or a spec is invalid.
    pub fn new(environment: E) -> Result<Self, EnvError> {
        let mut spec = environment.spec().clone();
        let (observation, action) =
            (Buffer::for_nest(&spec.observations, 1)?, Buffer::for_nest(&spec.actions, 1)?);
        if !matches!(spec.rewards.dtype, DType::Float32 | DType::Float64) {
            return Err(EnvError::Spec(Mismatch::boxed("reward", "float32 or float64", &spec.rewards)));
        }
        spec.observations = Nest::NamedTuple {
            name: "OAR".to_owned(),
            fields: vec![
                ("observation".to_owned(), spec.observations),
                ("action".to_owned(), spec.actions.map(with_zero)),
                ("reward".to_owned(), Nest::Leaf(with_zero(&spec.rewards))),
            ],
        };
        let like = Buffer::for_nest(&spec.observations, 1)?;
        Ok(Self { environment, spec, observation, action, like })
    }

    fn show(&mut self, step: TimeStep, mut observation: ViewMut<'_>) -> TimeStep {
        if step.first() {
            self.action.clear();
        }
        let parts = [self.observation.view(), self.action.view()];
        let leaves = parts.iter().flat_map(|part| (0..part.num_leaves()).map(|leaf| part.leaf_bytes(leaf)));
        for (target, bytes) in leaves.enumerate() {
            if let (Some(to), Some(from)) = (observation.leaf_bytes_mut(target), bytes) {
                to.copy_from_slice(from);
            }
        }
        let last = observation.num_leaves() - 1;
        write_reward(step.reward, observation.leaf_bytes_mut(last).unwrap_or_default());
        step
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rewards may be float32")]
fn write_reward(reward: f64, bytes: &mut [u8]) {
    match bytes.len() {
        4 => bytes.copy_from_slice(&(reward as f32).to_le_bytes()),
        _ => bytes.copy_from_slice(&reward.to_le_bytes()),
    }
}

/// Returns the same spec with zero allowed, for steps without a preceding action.
fn with_zero(spec: &ArraySpec) -> ArraySpec {
    let each =
        |bounds: &[f64], pick: fn(f64, f64) -> f64| bounds.iter().map(|bound| pick(*bound, 0.0)).collect();
    let domain = match &spec.domain {
        Domain::Bounded { minimum, maximum } => {
            Domain::Bounded { minimum: each(minimum, f64::min), maximum: each(maximum, f64::max) }
        }
        other => other.clone(),
    };
    ArraySpec { domain, ..spec.clone() }
}

impl<E: Environment> Environment for ObservationActionReward<E> {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.like.view())?;
        let step = self.environment.reset(self.observation.view_mut())?;
        Ok(self.show(step, observation))
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.like.view())?;
        let noted = self.action.set_action(0, action);
        let step = self.environment.step(action, self.observation.view_mut())?;
        if !step.first() {
            noted?;
        }
        Ok(self.show(step, observation))
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}
