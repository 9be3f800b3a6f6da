//! Numbers with 32 bits.

use relive_tensor::DType;

use crate::buffer::Action;
use crate::buffer::{Buffer, ViewMut};
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::{ArraySpec, EnvironmentSpec};
use crate::timestep::TimeStep;

/// Converts float64 to float32 and int64 to int32, in specs, observations, actions, rewards and discounts.
///
/// An int64 that does not fit into int32 keeps its lower half, as in numpy.
#[derive(Clone, Debug)]
pub struct SinglePrecision<E> {
    environment: E,
    spec: EnvironmentSpec,
    observation: Buffer,
    narrow_action: Buffer,
    action: Buffer,
    /// A buffer with the layout of the observations.
    like: Buffer,
}

impl<E: Environment> SinglePrecision<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Wraps the environment with 32-bit numbers.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if a spec is invalid.
    pub fn new(environment: E) -> Result<Self, EnvError> {
        let wide = environment.spec().clone();
        let spec = EnvironmentSpec {
            observations: wide.observations.map(single),
            actions: wide.actions.map(single),
            rewards: single(&wide.rewards),
            discounts: single(&wide.discounts),
        };
        let (observation, action) =
            (Buffer::for_nest(&wide.observations, 1)?, Buffer::for_nest(&wide.actions, 1)?);
        let narrow_action = Buffer::for_nest(&spec.actions, 1)?;
        let like = Buffer::for_nest(&spec.observations, 1)?;
        Ok(Self { environment, spec, observation, narrow_action, action, like })
    }

    fn show(&self, step: TimeStep, mut observation: ViewMut<'_>) -> TimeStep {
        let wide = self.observation.view();
        for leaf in 0..wide.num_leaves() {
            if let (Some(from), Some(to)) = (wide.leaf_bytes(leaf), observation.leaf_bytes_mut(leaf)) {
                convert(wide.dtype(leaf), from, to);
            }
        }
        TimeStep { reward: rounded(step.reward), discount: rounded(step.discount), ..step }
    }

    fn widen(&mut self, action: Action<'_>) -> Result<(), EnvError> {
        self.narrow_action.set_action(0, action)?;
        for leaf in 0..self.action.num_leaves() {
            let dtype = self.action.view().dtype(leaf);
            let from = self.narrow_action.leaf_bytes(leaf).unwrap_or_default();
            let to = self.action.leaf_bytes_mut(leaf).unwrap_or_default();
            widen(dtype, from, to);
        }
        Ok(())
    }
}

fn single(spec: &ArraySpec) -> ArraySpec {
    let dtype = match spec.dtype {
        DType::Float64 => DType::Float32,
        DType::Int64 => DType::Int32,
        other => other,
    };
    ArraySpec { dtype, ..spec.clone() }
}

#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
fn rounded(value: f64) -> f64 {
    f64::from(value as f32)
}

#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
fn convert(wide: Option<DType>, from: &[u8], to: &mut [u8]) {
    let cells = from.chunks_exact(8).zip(to.chunks_exact_mut(4));
    match wide {
        Some(DType::Float64) => cells.for_each(|(from, to)| {
            to.copy_from_slice(&(bytemuck::pod_read_unaligned::<f64>(from) as f32).to_le_bytes());
        }),
        Some(DType::Int64) => cells.for_each(|(from, to)| to.copy_from_slice(&from[..4])),
        _ => to.copy_from_slice(from),
    }
}

fn widen(wide: Option<DType>, from: &[u8], to: &mut [u8]) {
    let cells = from.chunks_exact(4).zip(to.chunks_exact_mut(8));
    match wide {
        Some(DType::Float64) => cells.for_each(|(from, to)| {
            to.copy_from_slice(&f64::from(bytemuck::pod_read_unaligned::<f32>(from)).to_le_bytes());
        }),
        Some(DType::Int64) => cells.for_each(|(from, to)| {
            to.copy_from_slice(&i64::from(bytemuck::pod_read_unaligned::<i32>(from)).to_le_bytes());
        }),
        _ => to.copy_from_slice(from),
    }
}

impl<E: Environment> Environment for SinglePrecision<E> {
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
        let action = match self.widen(action) {
            Ok(()) => Action::Nest(self.action.view()),
            // The environment reports the error, or starts a new episode if the last one is over.
            Err(_) => action,
        };
        let step = self.environment.step(action, self.observation.view_mut())?;
        Ok(self.show(step, observation))
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}
