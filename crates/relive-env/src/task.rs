//! A short way to write an environment.

use relive_tensor::{DType, Nest};

use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::{ArraySpec, EnvironmentSpec};
use crate::state::State;
use crate::timestep::TimeStep;

/// An environment reduced to its essentials: the start of an episode, and the effect of an action. [`Native`] turns it
/// into an [`Environment`] and adds the rest: specs, checks, and resets after the last step.
///
/// Observations are one array of float32.
///
/// ```
/// use relive_env::{Action, ArraySpec, Buffer, Environment, Native, State, Task, TimeStep, conformance};
/// use relive_tensor::DType;
///
/// /// Ten steps on a line, each to the left or to the right.
/// #[derive(Clone)]
/// struct Walk { position: i32, steps: u32 }
///
/// impl Task for Walk {
///     type Action<'a> = u32;
///
///     fn observations(&self) -> ArraySpec {
///         ArraySpec::new("position", DType::Float32, [1]).bounded(-10.0, 10.0)
///     }
///
///     fn actions(&self) -> ArraySpec {
///         ArraySpec::discrete("direction", 2)
///     }
///
///     fn begin(&mut self, observation: &mut [f32]) {
///         *self = Self { position: 0, steps: 0 };
///         observation[0] = 0.0;
///     }
///
///     fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
///         self.position += if action == 1 { 1 } else { -1 };
///         self.steps += 1;
///         observation[0] = self.position as f32;
///         if self.steps == 10 { TimeStep::termination(self.position.into()) } else { TimeStep::transition(0.0) }
///     }
///
///     fn state(&mut self, state: &mut State<'_>) {
///         state.field(&mut self.position);
///         state.field(&mut self.steps);
///     }
/// }
///
/// conformance::check(|_| Native::from(Walk { position: 0, steps: 0 }))?;
/// # Ok::<(), conformance::Violation>(())
/// ```
pub trait Task: Send {
    /// `u32` for a choice, `&[f32]` for an array.
    type Action<'a>: FromAction<'a>;

    /// Returns the spec of observations, which are float32.
    fn observations(&self) -> ArraySpec;

    /// Returns the spec of actions: discrete, or an array of float32.
    fn actions(&self) -> ArraySpec;

    /// Starts an episode and writes its whole first observation.
    fn begin(&mut self, observation: &mut [f32]);

    /// Takes a permitted action, and writes the whole next observation.
    fn act(&mut self, action: Self::Action<'_>, observation: &mut [f32]) -> TimeStep;

    /// Visits all fields that change.
    fn state(&mut self, state: &mut State<'_>);

    /// Returns the choice of a demonstrator that has mastered the task, or `None` if the task has none.
    fn demonstrated(&self) -> Option<i32> {
        None
    }
}

/// The action type of a [`Task`].
pub trait FromAction<'a>: Sized {
    #[doc(hidden)]
    fn from_action(action: Action<'a>, limit: usize) -> Result<Self, EnvError>;
}

impl FromAction<'_> for u32 {
    #[inline]
    fn from_action(action: Action<'_>, limit: usize) -> Result<Self, EnvError> {
        action.discrete(Self::try_from(limit).unwrap_or(Self::MAX))
    }
}

impl<'a> FromAction<'a> for &'a [f32] {
    #[inline]
    fn from_action(action: Action<'a>, limit: usize) -> Result<Self, EnvError> {
        let values = action.continuous(limit)?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(index) => Err(EnvError::Action(Mismatch::boxed(index, "a finite number", values[index]))),
        }
    }
}

/// A [`Task`] as an [`Environment`].
#[derive(Clone, Debug)]
pub struct Native<T> {
    task: T,
    spec: EnvironmentSpec,
    /// The number of choices, or of elements of an action.
    action_limit: usize,
    observation_len: usize,
    /// Whether the next step is a reset.
    over: bool,
}

impl<T: Task> From<T> for Native<T> {
    fn from(task: T) -> Self {
        let (observations, actions) = (task.observations(), task.actions());
        let elements = |spec: &ArraySpec| spec.num_elements().unwrap_or(0);
        let action_limit = actions.num_values().map_or(elements(&actions), |count| count as usize);
        let observation_len = elements(&observations);
        let spec = EnvironmentSpec::new(observations, actions);
        Self { task, spec, action_limit, observation_len, over: true }
    }
}

impl<T> Native<T> {
    /// Returns the task, including its totals.
    pub fn task(&self) -> &T {
        &self.task
    }

    fn cells<'a>(&self, observation: &'a mut ViewMut<'_>) -> Result<&'a mut [f32], EnvError> {
        if observation.num_leaves() != 1 {
            return Err(self.other_buffer(format_args!("{} leaves", observation.num_leaves())));
        }
        let cells = observation.leaf_mut::<f32>(0)?;
        if cells.len() == self.observation_len {
            Ok(cells)
        } else {
            Err(self.other_buffer(format_args!("{} elements", cells.len())))
        }
    }

    #[cold]
    fn other_buffer(&self, actual: std::fmt::Arguments<'_>) -> EnvError {
        let expected = match &self.spec.observations {
            Nest::Leaf(spec) => spec.to_string(),
            _ => DType::Float32.to_string(),
        };
        EnvError::Observation(Mismatch::boxed("", expected, actual))
    }
}

impl<T: Task> Environment for Native<T> {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    #[inline]
    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let cells = self.cells(&mut observation)?;
        self.task.begin(cells);
        self.over = false;
        Ok(TimeStep::restart())
    }

    #[inline]
    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.over {
            return self.reset(observation);
        }
        let action = T::Action::from_action(action, self.action_limit)?;
        let cells = self.cells(&mut observation)?;
        let step = self.task.act(action, cells);
        self.over = step.last();
        Ok(step)
    }

    fn demonstrate(&self, mut action: ViewMut<'_>) -> Result<bool, EnvError> {
        let Some(choice) = self.task.demonstrated() else { return Ok(false) };
        action.leaf_mut::<i32>(0)?.fill(choice);
        Ok(true)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut state = State::writer(&mut bytes);
        state.field(&mut self.over);
        self.task.state(&mut state);
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let before = self.save();
        match self.read(bytes) {
            Ok(()) => Ok(()),
            Err(error) => {
                before.map_or(Ok(()), |before| self.read(&before))?;
                Err(error)
            }
        }
    }
}

impl<T: Task> Native<T> {
    fn read(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let mut state = State::reader(bytes);
        state.field(&mut self.over);
        self.task.state(&mut state);
        state.finish()
    }
}
