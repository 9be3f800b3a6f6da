//! Recorded episodes.

use relive_env::{Action, Buffer, Environment, EnvironmentSpec, TimeStep, View, ViewMut};

use crate::acting::FiniteCheck;
use crate::adders::Adder;
use crate::{Result, RlError};

/// A recorded episode, or the beginning of one.
#[derive(Debug, Clone)]
pub struct RecordedEpisode {
    /// The observation before each step, and the one after the last step: `[steps + 1, …]`.
    pub observations: Buffer,
    /// The actions, `[steps, …]`.
    pub actions: Buffer,
    /// The resulting time steps.
    pub answers: Vec<TimeStep>,
}

/// The maximum number of steps of an episode that is played for recording.
const MAX_STEPS: usize = 1_000_000;

impl RecordedEpisode {
    /// Plays an episode; `act` writes the action for each observation.
    ///
    /// # Errors
    /// Errors of the environment and of `act`. Also fails if the episode does not end within 1,000,000 steps.
    pub fn play(
        environment: &mut dyn Environment,
        mut act: impl FnMut(&dyn Environment, View<'_>, ViewMut<'_>) -> Result<()>,
    ) -> Result<RecordedEpisode> {
        let spec = environment.spec().clone();
        let mut observation = Buffer::for_nest(&spec.observations, 1)?;
        let mut action = Buffer::for_nest(&spec.actions, 1)?;
        let (mut seen, mut done, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        environment.reset(observation.view_mut())?;
        seen.push(observation.clone());
        while answers.last().is_none_or(|answer: &TimeStep| !answer.last()) {
            if answers.len() == MAX_STEPS {
                return Err(RlError::setting(
                    "the steps of an episode",
                    "beyond 1000000",
                    "at most this number",
                ));
            }
            act(environment, observation.view(), action.view_mut())?;
            let answer = environment.step(Action::Nest(action.view()), observation.view_mut())?;
            done.push(action.clone());
            seen.push(observation.clone());
            answers.push(answer);
        }
        Ok(RecordedEpisode { observations: joined(&seen)?, actions: joined(&done)?, answers })
    }

    /// Plays an episode with the environment's own demonstrator.
    ///
    /// # Errors
    /// [`NoDemonstrator`](RlError::NoDemonstrator); otherwise the same as for [`play`](Self::play).
    pub fn demonstrated(environment: &mut dyn Environment) -> Result<RecordedEpisode> {
        RecordedEpisode::play(environment, |environment, _, action| {
            RecordedEpisode::demonstrate(environment, action)
        })
    }

    /// Writes the action of the environment's own demonstrator.
    ///
    /// # Errors
    /// Same as [`demonstrated`](Self::demonstrated).
    pub fn demonstrate(environment: &dyn Environment, action: ViewMut<'_>) -> Result<()> {
        match environment.demonstrate(action)? {
            true => Ok(()),
            false => Err(RlError::NoDemonstrator),
        }
    }

    /// Writes the episode through an adder, with the same extras at each step.
    ///
    /// # Errors
    /// The errors of the adder.
    pub fn write(&self, adder: &mut dyn Adder, extras: View<'_>) -> Result<()> {
        adder.add_first(self.observations.row(0))?;
        for (step, answer) in self.answers.iter().enumerate() {
            let observation = self.observations.row(step + 1);
            adder.add_with_extras(self.actions.row(step), *answer, observation, extras)?;
        }
        Ok(())
    }

    /// Returns the undiscounted sum of the episode's rewards.
    #[must_use]
    pub fn episode_return(&self) -> f64 {
        self.answers.iter().map(|answer| answer.reward).sum()
    }

    /// Checks that a learner can use all of the episode's numbers.
    pub(super) fn check(&self, check: &mut FiniteCheck) -> Result<()> {
        check.first(self.observations.row(0))?;
        let mut answers = self.answers.iter().enumerate();
        answers.try_for_each(|(step, answer)| check.next(*answer, self.observations.row(step + 1)))
    }

    /// Checks that the episode fits an environment.
    pub(crate) fn expect(&self, spec: &EnvironmentSpec) -> Result<()> {
        let empty = [Buffer::for_nest(&spec.observations, 1)?, Buffer::for_nest(&spec.actions, 1)?];
        for (own, asked) in [&self.observations, &self.actions].into_iter().zip(&empty) {
            asked.clone().row_mut(0).copy_from(own.row(0))?;
        }
        Ok(())
    }
}

/// Joins buffers of one row each.
fn joined(rows: &[Buffer]) -> Result<Buffer> {
    let first = rows.first().ok_or_else(|| RlError::setting("the steps of an episode", 0, "at least 1"))?;
    let mut all = first.with_rows(rows.len())?;
    for (row, buffer) in rows.iter().enumerate() {
        all.copy_rows(row, buffer, 0, 1)?;
    }
    Ok(all)
}
