//! What was seen and done in a fragment of steps.

use std::ops::Range;
use std::time::{Duration, Instant};

use relive_env::{Buffer, TimeStep};

use crate::{Part, Result, RlError, Times, Weights};

/// A fragment of steps in each row of a number of environments, time first: cell `time · rows + row`.
///
/// An environment whose episode has ended begins anew with the next step. That cell is a FIRST: its observation is
/// the last one of the episode before, its action was ignored, and nothing is to be learned from it.
#[derive(Debug)]
pub struct Rollout {
    /// Steps of each row.
    pub steps: usize,
    /// Environments.
    pub rows: usize,
    /// What was seen before each step, `[(steps + 1) · rows, …]`: also what was seen after the last.
    pub observations: Buffer,
    /// What was done, `[steps · rows, …]`.
    pub actions: Buffer,
    /// What else the policy wrote, `[steps · rows, …]`.
    pub extras: Buffer,
    /// What the environments answered, `[steps · rows]`.
    pub answers: Vec<TimeStep>,
    /// What the policy acted by; none if nothing was published yet. Of rollouts side by side those of the first.
    pub weights: Option<Weights>,
    /// What is to be told of it, worker by worker.
    pub acted: Vec<Acted>,
}

/// What a worker has done since it told last.
#[derive(Debug, Clone, Default)]
pub struct Acted {
    /// The number of the worker.
    pub worker: u32,
    /// Steps in its environments; beginnings of episodes do not count.
    pub env_steps: u64,
    /// Episodes that have ended.
    pub episodes: Vec<Episode>,
    /// The version of the weights that it acted by, none if there were none.
    pub version: Option<u64>,
    /// How long it took.
    pub times: Times,
}

impl Acted {
    /// Counts the time since then as one that the first of these workers took for a part of its work.
    pub fn note_time(acted: &mut [Acted], part: Part, since: Instant) {
        if let Some(first) = acted.first_mut() {
            first.times.add(part, since.elapsed());
        }
    }
}

/// An episode that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Steps, the first observation not counted.
    pub length: u64,
    /// The undiscounted sum of its rewards.
    pub episode_return: f64,
    /// How long it took.
    pub duration: Duration,
    /// Steps of its worker until then, beginnings of episodes among them: of a round of several workers it says which
    /// episode ended first.
    pub ended_at: u64,
}

impl Rollout {
    /// Bytes of what was seen, done and answered.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let of = |buffer: &Buffer| -> usize {
            (0..buffer.num_leaves()).filter_map(|leaf| buffer.leaf_bytes(leaf)).map(<[u8]>::len).sum()
        };
        let answers = size_of_val(self.answers.as_slice());
        of(&self.observations) + of(&self.actions) + of(&self.extras) + answers
    }

    /// Rollouts of as many steps as one: the rows of the first, then those of the second, and so on.
    ///
    /// # Errors
    /// There are none, or they are of several lengths or layouts.
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

    /// A part of it: these rows, without what is to be told of it.
    ///
    /// # Errors
    /// There are no such rows.
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

    /// Copies another rollout into the rows from `row` on.
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

    /// The cells that something can be learned from, in their order.
    pub fn learnable(&self) -> impl Iterator<Item = usize> {
        self.answers.iter().enumerate().filter(|(_, answer)| !answer.first()).map(|(cell, _)| cell)
    }
}
