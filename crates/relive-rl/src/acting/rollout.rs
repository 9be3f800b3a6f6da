//! The fragments of steps that workers produce.

use std::ops::Range;
use std::time::{Duration, Instant};

use relive_env::{Buffer, TimeStep};

use crate::{Part, Result, RlError, Times, Weights};

/// A fragment of steps in each of several environments (rows), in time-major order: a step's cell is `time · rows +
/// row`.
///
/// After the end of an episode, the environment resets at the next step. That cell is a FIRST, and contains the last
/// observation of the previous episode. Its action was ignored, so learners must skip the cell.
#[derive(Debug)]
pub struct Rollout {
    /// The number of steps per row.
    pub steps: usize,
    /// The number of environments.
    pub rows: usize,
    /// The observation before each step, and the one after the last step: `[(steps + 1) · rows, …]`.
    pub observations: Buffer,
    /// The actions, `[steps · rows, …]`.
    pub actions: Buffer,
    /// The policy's extras, `[steps · rows, …]`.
    pub extras: Buffer,
    /// The environments' time steps, `[steps · rows]`.
    pub answers: Vec<TimeStep>,
    /// The weights with which the policy acted; `None` if none had been published yet. Merged rollouts have the weights
    /// of the first one.
    pub weights: Option<Weights>,
    /// The workers' reports on this rollout, one per worker.
    pub acted: Vec<Acted>,
}

/// A worker's report on its work since the last report.
#[derive(Debug, Clone, Default)]
pub struct Acted {
    /// The number of the worker.
    pub worker: u32,
    /// The number of steps in its environments, not counting resets.
    pub env_steps: u64,
    /// The episodes that have ended.
    pub episodes: Vec<Episode>,
    /// The version of the weights with which the worker acted; `None` if the worker had no weights.
    pub version: Option<u64>,
    /// The time spent on each part of the work.
    pub times: Times,
}

impl Acted {
    /// Adds the time since `since` to a part of the first worker's work.
    pub fn note_time(acted: &mut [Acted], part: Part, since: Instant) {
        if let Some(first) = acted.first_mut() {
            first.times.add(part, since.elapsed());
        }
    }

    /// Adds a later report of the same worker.
    pub(crate) fn merge(&mut self, later: Acted) {
        let Acted { worker: _, env_steps, episodes, version, times } = later;
        self.env_steps += env_steps;
        self.episodes.extend(episodes);
        self.version = version;
        self.times.merge(&times);
    }
}

/// An episode that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The number of steps, not counting the first observation.
    pub length: u64,
    /// The undiscounted sum of its rewards.
    pub episode_return: f64,
    /// The duration of the episode.
    pub duration: Duration,
    /// The worker's step count at the end of the episode, including resets. It determines the order of episodes in a
    /// round with several workers.
    pub ended_at: u64,
}

impl Rollout {
    /// Returns the total size of observations, actions, extras and time steps, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let of = |buffer: &Buffer| -> usize {
            (0..buffer.num_leaves()).filter_map(|leaf| buffer.leaf_bytes(leaf)).map(<[u8]>::len).sum()
        };
        let answers = size_of_val(self.answers.as_slice());
        of(&self.observations) + of(&self.actions) + of(&self.extras) + answers
    }

    /// Puts rollouts of equal length side by side: first the rows of the first rollout, then the rows of the second,
    /// and so on.
    ///
    /// # Errors
    /// The list is empty, or the rollouts differ in length or layout.
    pub fn side_by_side(mut parts: Vec<Rollout>) -> Result<Rollout> {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return Ok(only);
        }
        let Some(first) = parts.first() else {
            return Err(RlError::setting("the number of rollouts", 0, "at least 1"));
        };
        let (steps, rows) = (first.steps, parts.iter().map(|part| part.rows).sum());
        if let Some(other) = parts.iter().find(|part| part.steps != steps) {
            return Err(RlError::setting("the steps of a rollout", other.steps, "those of the others"));
        }
        let mut joined = Rollout {
            steps,
            rows,
            observations: first.observations.with_rows((steps + 1) * rows)?,
            actions: first.actions.with_rows(steps * rows)?,
            extras: first.extras.with_rows(steps * rows)?,
            answers: vec![TimeStep::restart(); steps * rows],
            weights: first.weights.clone(),
            acted: Vec::new(),
        };
        let mut row = 0;
        for part in parts {
            let next = row + part.rows;
            joined.put(row, part)?;
            row = next;
        }
        Ok(joined)
    }

    /// Copies the given rows into a separate rollout, without the workers' reports.
    ///
    /// # Errors
    /// The rows are out of range.
    pub fn of_rows(&self, rows: Range<usize>) -> Result<Rollout> {
        let (steps, count) = (self.steps, rows.len());
        let mut part = Rollout {
            steps,
            rows: count,
            observations: self.observations.with_rows((steps + 1) * count)?,
            actions: self.actions.with_rows(steps * count)?,
            extras: self.extras.with_rows(steps * count)?,
            answers: Vec::with_capacity(steps * count),
            weights: self.weights.clone(),
            acted: Vec::new(),
        };
        for time in 0..=steps {
            let (to, from) = (time * count, time * self.rows + rows.start);
            part.observations.copy_rows(to, &self.observations, from, count)?;
            if time < steps {
                part.actions.copy_rows(to, &self.actions, from, count)?;
                part.extras.copy_rows(to, &self.extras, from, count)?;
                part.answers.extend_from_slice(&self.answers[from..from + count]);
            }
        }
        Ok(part)
    }

    /// Copies another rollout into the rows that start at `row`.
    fn put(&mut self, row: usize, part: Rollout) -> Result<()> {
        for time in 0..=part.steps {
            let (to, from) = (time * self.rows + row, time * part.rows);
            self.observations.copy_rows(to, &part.observations, from, part.rows)?;
            if time < part.steps {
                self.actions.copy_rows(to, &part.actions, from, part.rows)?;
                self.extras.copy_rows(to, &part.extras, from, part.rows)?;
                self.answers[to..to + part.rows].copy_from_slice(&part.answers[from..from + part.rows]);
            }
        }
        self.acted.extend(part.acted);
        Ok(())
    }

    /// Returns the cells that a learner can use, in order.
    pub fn learnable(&self) -> impl Iterator<Item = usize> {
        self.answers.iter().enumerate().filter(|(_, answer)| !answer.first()).map(|(cell, _)| cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_report_is_added_to_an_earlier_one() {
        let report = |version| {
            let mut times = Times::default();
            times.add(Part::Step, Duration::from_millis(2));
            let episode =
                Episode { length: 3, episode_return: 1.0, duration: Duration::ZERO, ended_at: version };
            Acted { worker: 1, env_steps: 3, episodes: vec![episode], version: Some(version), times }
        };
        let mut sum = report(1);
        sum.merge(report(2));
        assert_eq!((sum.env_steps, sum.episodes.len(), sum.version), (6, 2, Some(2)));
        assert_eq!(sum.times.of(Part::Step), Duration::from_millis(4));
    }
}
