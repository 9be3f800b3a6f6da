//! Stacked observations.

use relive_tensor::{DType, Shape};

use super::memory::{checked_count, restore, save};
use crate::buffer::Action;
use crate::buffer::{Buffer, ViewMut};
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::{ArraySpec, Domain, EnvironmentSpec};
use crate::timestep::TimeStep;

/// Stacks the last few observations on a new last axis, newest last. After a reset, missing observations are zeros.
///
/// ```
/// use relive_env::{Buffer, Environment, classic::CartPole, wrappers::FrameStacking};
/// let mut environment = FrameStacking::new(CartPole::new(1), 3)?;
/// let mut observation = Buffer::for_nest(&environment.spec().observations, 1)?;
/// environment.reset(observation.view_mut())?;
/// let [_, _, position, ..] = observation.leaf::<f32>(0)? else { panic!() };
/// assert_eq!(observation.leaf::<f32>(0)?.len(), 4 * 3);
/// assert!(*position != 0.0 && observation.leaf::<f32>(0)?[..2] == [0.0, 0.0]);
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FrameStacking<E> {
    environment: E,
    spec: EnvironmentSpec,
    frames: usize,
    newest: Buffer,
    stack: Buffer,
}

impl<E: Environment> FrameStacking<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Stacks the last `frames` observations, `[…, frames]`.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if `frames` is 0 or exceeds [`MAX_REPEATS`](crate::limits::MAX_REPEATS);
    /// [`EnvError::Spec`] if the frames do not fit into memory.
    pub fn new(environment: E, frames: usize) -> Result<Self, EnvError> {
        Self::build(environment, frames, false)
    }

    /// Like [`new`](Self::new), but with the new axis merged into the last axis of the observation: `[…, last ·
    /// frames]`.
    ///
    /// # Errors
    /// Same as [`FrameStacking::new`].
    pub fn flattened(environment: E, frames: usize) -> Result<Self, EnvError> {
        Self::build(environment, frames, true)
    }

    fn build(environment: E, frames: usize, flatten: bool) -> Result<Self, EnvError> {
        let frames = checked_count("frames", frames)?;
        let mut spec = environment.spec().clone();
        let newest = Buffer::for_nest(&spec.observations, 1)?;
        spec.observations = spec.observations.try_map(&mut |leaf| stacked(leaf, frames, flatten))?;
        let stack = Buffer::for_nest(&spec.observations, 1)?;
        Ok(Self { environment, spec, frames, newest, stack })
    }

    fn show(&mut self, step: TimeStep, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if step.first() {
            self.stack.clear();
        }
        let view = self.newest.view();
        for leaf in 0..self.stack.num_leaves() {
            let (Some(frame), Some(size)) =
                (view.leaf_bytes(leaf), view.dtype(leaf).and_then(DType::size_bytes))
            else {
                continue;
            };
            push(self.stack.leaf_bytes_mut(leaf).unwrap_or_default(), frame, size, self.frames);
        }
        observation.copy_from(self.stack.view())?;
        Ok(step)
    }
}

/// Shifts the frames of each element by one.
fn push(stack: &mut [u8], frame: &[u8], size: usize, frames: usize) {
    for (old, new) in stack.chunks_exact_mut(size * frames).zip(frame.chunks_exact(size)) {
        old.copy_within(size.., 0);
        old[size * (frames - 1)..].copy_from_slice(new);
    }
}

fn stacked(leaf: &ArraySpec, frames: usize, flatten: bool) -> Result<ArraySpec, EnvError> {
    let wide = || EnvError::Setting(Mismatch::boxed("frames", "a shape that fits", frames));
    let count = u32::try_from(frames).map_err(|_| wide())?;
    let mut dims = leaf.shape.dims().to_vec();
    match dims.last_mut() {
        Some(last) if flatten => *last = last.checked_mul(count).ok_or_else(wide)?,
        _ => dims.push(count),
    }
    // A discrete choice becomes an ordinary number when it is stacked, and zeros precede the first frame.
    let repeat = |bounds: &[f64], with_zero: fn(f64, f64) -> f64| match bounds {
        [bound] => vec![with_zero(*bound, 0.0)],
        each => each.iter().flat_map(|bound| std::iter::repeat_n(with_zero(*bound, 0.0), frames)).collect(),
    };
    let domain = match &leaf.domain {
        Domain::Any => Domain::Any,
        Domain::Bounded { minimum, maximum } => {
            Domain::Bounded { minimum: repeat(minimum, f64::min), maximum: repeat(maximum, f64::max) }
        }
        Domain::Discrete(values) => {
            Domain::Bounded { minimum: vec![0.0], maximum: vec![f64::from(*values) - 1.0] }
        }
    };
    Ok(ArraySpec { name: leaf.name.clone(), dtype: leaf.dtype, shape: Shape::from(dims.as_slice()), domain })
}

impl<E: Environment> Environment for FrameStacking<E> {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.stack.view())?;
        let step = self.environment.reset(self.newest.view_mut())?;
        self.show(step, observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.stack.view())?;
        let step = self.environment.step(action, self.newest.view_mut())?;
        self.show(step, observation)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        save(&mut self.environment, &mut self.stack)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        restore(&mut self.environment, &mut self.stack, state)
    }
}
