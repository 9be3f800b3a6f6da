//! Actions between -1 and 1.

use relive_tensor::DType;

use crate::buffer::Action;
use crate::buffer::{Buffer, ViewMut};
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::{ArraySpec, Domain, EnvironmentSpec};
use crate::timestep::TimeStep;

/// Accepts actions in `[-1, 1]` for all bounded floats of the environment, and scales them to their bounds. Other
/// leaves are passed through unchanged.
///
/// ```
/// use relive_env::{Environment, classic::Pendulum, wrappers::CanonicalSpec};
/// let environment = CanonicalSpec::new(Pendulum::new(1))?;
/// let action = environment.spec().actions.leaves().next().unwrap();
/// assert_eq!(action.to_string(), "float32 (1,) in -1..=1");
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CanonicalSpec<E> {
    environment: E,
    spec: EnvironmentSpec,
    clip: bool,
    stretched: Buffer,
}

impl<E: Environment> CanonicalSpec<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Scales all actions, including actions beyond `[-1, 1]`.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if actions are bounded on only one side.
    pub fn new(environment: E) -> Result<Self, EnvError> {
        Self::build(environment, false)
    }

    /// Clips actions to `[-1, 1]` first.
    ///
    /// # Errors
    /// Same as [`CanonicalSpec::new`].
    pub fn clipped(environment: E) -> Result<Self, EnvError> {
        Self::build(environment, true)
    }

    fn build(environment: E, clip: bool) -> Result<Self, EnvError> {
        let mut spec = environment.spec().clone();
        let stretched = Buffer::for_nest(&spec.actions, 1)?;
        spec.actions = spec.actions.try_map(&mut canonical)?;
        Ok(Self { environment, spec, clip, stretched })
    }

    fn stretch(&mut self, action: Action<'_>) -> Result<(), EnvError> {
        self.stretched.set_action(0, action)?;
        let specs = &self.environment.spec().actions;
        for (leaf, spec) in specs.leaves().enumerate().filter(|(_, spec)| is_stretched(spec)) {
            if spec.dtype == DType::Float64 {
                for (index, value) in self.stretched.leaf_mut::<f64>(leaf)?.iter_mut().enumerate() {
                    *value = stretch(*value, spec.bounds(index), self.clip);
                }
            } else {
                for (index, value) in self.stretched.leaf_mut::<f32>(leaf)?.iter_mut().enumerate() {
                    *value = narrow(stretch(f64::from(*value), spec.bounds(index), self.clip));
                }
            }
        }
        Ok(())
    }
}

fn is_stretched(spec: &ArraySpec) -> bool {
    matches!(spec.dtype, DType::Float32 | DType::Float64) && matches!(spec.domain, Domain::Bounded { .. })
}

fn canonical(spec: &ArraySpec) -> Result<ArraySpec, EnvError> {
    if !is_stretched(spec) {
        return Ok(spec.clone());
    }
    let finite = |(low, high): (f64, f64)| low.is_finite() && high.is_finite();
    if (0..spec.num_elements()?).map(|index| spec.bounds(index)).all(finite) {
        Ok(spec.clone().bounded(-1.0, 1.0))
    } else {
        Err(EnvError::Spec(Mismatch::boxed(&spec.name, "bounds on both sides of every element", spec)))
    }
}

fn stretch(value: f64, (low, high): (f64, f64), clip: bool) -> f64 {
    let value = if clip { value.clamp(-1.0, 1.0) } else { value };
    // Rounding must not exceed the bounds.
    0.5 * ((1.0 - value) * low + (1.0 + value) * high)
}

#[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
fn narrow(value: f64) -> f32 {
    value as f32
}

impl<E: Environment> Environment for CanonicalSpec<E> {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        // The environment rejects an action with a different layout, unless its episode is over and the action is
        // ignored.
        let action = match self.stretch(action) {
            Ok(()) => Action::Nest(self.stretched.view()),
            Err(_) => action,
        };
        self.environment.step(action, observation)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}
