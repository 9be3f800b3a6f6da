//! An environment that writes bsuite's log.

use super::{LogRow, read_csv, write_csv};
use crate::bsuite::Totals;
use crate::buffer::Action;
use crate::buffer::ViewMut;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::EnvironmentSpec;
use crate::state::State;
use crate::timestep::TimeStep;

/// The multiples of a power of ten at which episodes are logged, in tenths.
const LOGGED_TENTHS: [u128; 14] = [10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100];

/// Returns whether bsuite logs after this episode. It logs after 1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, …, 10 times a power of
/// ten.
#[must_use]
pub fn is_logged_episode(episode: u64) -> bool {
    let power = 10_u128.pow(episode.max(1).ilog10());
    LOGGED_TENTHS.iter().any(|tenths| u128::from(episode) * 10 == power * tenths)
}

/// An environment with bsuite's log: a row after each [logged episode](is_logged_episode), about fourteen per power of
/// ten.
///
/// ```
/// use relive_env::{Action, Buffer, Environment, bsuite};
/// let mut environment = bsuite::Logged::new(bsuite::load("catch/0", 1)?);
/// let mut observation = Buffer::for_nest(&environment.spec().observations, 1)?;
/// for _ in 0..10 * 12 {
///     environment.step(Action::Discrete(1), observation.view_mut())?;
/// }
/// let episodes: Vec<u64> = environment.rows().iter().map(|row| row.episode).collect();
/// assert_eq!(episodes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
/// assert_eq!(environment.rows()[10].steps, 12 * 9);
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Logged<E> {
    environment: E,
    now: LogRow,
    rows: Vec<LogRow>,
    /// The rows, stored as text, because a search saves and restores an environment many times per step, but few rows
    /// are added.
    text: Vec<u8>,
}

impl<E: Environment + Totals> Logged<E> {
    /// Starts with an empty log.
    pub fn new(environment: E) -> Self {
        Self { environment, now: LogRow::default(), rows: Vec::new(), text: write_csv(&[]).into_bytes() }
    }

    /// Returns the log so far.
    pub fn rows(&self) -> &[LogRow] {
        &self.rows
    }

    /// Returns the environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    fn track(&mut self, step: TimeStep) {
        if self.now.count(step) && is_logged_episode(self.now.episode) {
            self.rows.push(self.now.with_totals(&self.environment));
            self.text = write_csv(&self.rows).into_bytes();
        }
    }

    fn visit(state: &mut State<'_>, inner: &mut Vec<u8>, now: &mut LogRow, rows: &mut Vec<u8>) {
        state.bytes(inner);
        now.visit_counts(state);
        state.bytes(rows);
    }
}

impl<E: Environment + Totals> Environment for Logged<E> {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.reset(observation)?;
        self.track(step);
        Ok(step)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let step = self.environment.step(action, observation)?;
        self.track(step);
        Ok(step)
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let (mut inner, mut bytes) = (self.environment.save()?, Vec::new());
        Self::visit(&mut State::writer(&mut bytes), &mut inner, &mut self.now, &mut self.text);
        Some(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), EnvError> {
        let (mut inner, mut now, mut text) = (Vec::new(), LogRow::default(), Vec::new());
        let mut state = State::reader(bytes);
        Self::visit(&mut state, &mut inner, &mut now, &mut text);
        state.finish()?;
        let others = if text == self.text { None } else { Some(read_csv(&String::from_utf8_lossy(&text))?) };
        self.environment.restore(&inner)?;
        if let Some(rows) = others {
            (self.rows, self.text) = (rows, text);
        }
        self.now = now;
        Ok(())
    }
}

impl<E: Totals> Totals for Logged<E> {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        self.environment.totals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_episodes_are_spaced_evenly_in_their_logarithm() {
        let logged: Vec<u64> = (0..=1200).filter(|episode| is_logged_episode(*episode)).collect();
        let expected = [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 120, 140,
            170, 200, 250, 300, 400, 500, 600, 700, 800, 900, 1000, 1200,
        ];
        assert_eq!(logged, expected);
        assert!(!is_logged_episode(u64::MAX));
    }
}
