//! Many environments on one thread.

use super::BatchEnvironment;
use super::batch::checked_count;
use crate::buffer::Action;
use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::EnvironmentSpec;
use crate::state::State;
use crate::timestep::TimeStep;

/// Environments that are stepped one after the other, on the caller's thread.
///
/// ```
/// use relive_env::{BatchEnvironment, TimeStep, Vectorized, classic::CartPole};
/// let mut environments = Vectorized::new(8, |index| CartPole::new(index as u64))?;
/// let (mut observations, mut actions) = (environments.observations()?, environments.actions()?);
/// let mut answers = vec![TimeStep::restart(); 8];
/// environments.reset(&mut observations, &mut answers)?;
/// actions.leaf_mut::<i32>(0)?.fill(1);
/// environments.step(&actions, &mut observations, &mut answers)?;
/// assert!(answers.iter().all(|step| step.reward == 1.0));
/// assert_eq!(observations.leaf::<f32>(0)?.len(), 8 * 4);
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vectorized<E> {
    environments: Vec<E>,
    spec: EnvironmentSpec,
}

impl<E: Environment> Vectorized<E> {
    /// Creates `count` environments. `make` receives the row of each, from which it can derive a seed.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if there are zero or too many environments, [`EnvError::Spec`] if they differ in their
    /// specs.
    pub fn new(count: usize, make: impl FnMut(usize) -> E) -> Result<Self, EnvError> {
        Self::from_environments((0..checked_count(count)?).map(make).collect())
    }

    /// Steps these environments.
    ///
    /// # Errors
    /// Same as [`Vectorized::new`].
    pub fn from_environments(environments: Vec<E>) -> Result<Self, EnvError> {
        checked_count(environments.len())?;
        let spec = environments.first().map(|first| first.spec().clone());
        let spec = spec.ok_or_else(|| EnvError::Failed("no environment".to_owned()))?;
        if let Some(row) = environments.iter().position(|other| *other.spec() != spec) {
            let expected = "environments with the same spec";
            return Err(EnvError::Spec(Mismatch::boxed(
                format_args!("row {row}"),
                expected,
                "a different spec",
            )));
        }
        Ok(Self { environments, spec })
    }

    /// Returns the environments, row by row.
    pub fn environments(&self) -> &[E] {
        &self.environments
    }
}

impl<E: Environment> BatchEnvironment for Vectorized<E> {
    fn len(&self) -> usize {
        self.environments.len()
    }

    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observations: &mut Buffer, answers: &mut [TimeStep]) -> Result<(), EnvError> {
        self.expect_rows(&[observations.rows(), answers.len()])?;
        for (row, (environment, answer)) in self.environments.iter_mut().zip(answers).enumerate() {
            *answer = environment.reset(observations.row_mut(row)).map_err(|error| error.in_row(row))?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        actions: &Buffer,
        observations: &mut Buffer,
        answers: &mut [TimeStep],
    ) -> Result<(), EnvError> {
        self.expect_rows(&[actions.rows(), observations.rows(), answers.len()])?;
        for (row, (environment, answer)) in self.environments.iter_mut().zip(answers).enumerate() {
            let action = Action::Nest(actions.row(row));
            match environment.step(action, observations.row_mut(row)) {
                Ok(step) => *answer = step,
                Err(error) => return Err(error.in_row(row)),
            }
        }
        Ok(())
    }

    fn one(&mut self, row: usize) -> Option<&mut dyn Environment> {
        self.environments.get_mut(row).map(|environment| environment as &mut dyn Environment)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let states: Option<Vec<Vec<u8>>> = self.environments.iter_mut().map(Environment::save).collect();
        let mut bytes = Vec::new();
        let mut state = State::writer(&mut bytes);
        states?.iter_mut().for_each(|inner| state.bytes(inner));
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let mut states = vec![Vec::new(); self.environments.len()];
        let mut state = State::reader(bytes);
        states.iter_mut().for_each(|inner| state.bytes(inner));
        state.finish()?;
        self.environments
            .iter_mut()
            .zip(states)
            .try_for_each(|(environment, state)| environment.restore(&state))
    }
}
