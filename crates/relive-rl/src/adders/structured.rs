//! Items that the writer creates from patterns.

use std::fmt;

use relive_client::blocking::{Client, StructuredWriter};
use relive_client::{Condition, Nest, PatternNode, SourceColumn, StructuredConfig, Tensor, reference_step};
use relive_env::{ArraySpec, EnvironmentSpec, TimeStep, View};

use super::room::{CONFIRMATION_TIMEOUT, until_there_is_room};
use super::step::Steps;
use super::{Adder, EndOfEpisode};
use crate::{Result, RlError};

/// Writes rows with the fields of [`step_spec`](super::step_spec). The writer creates items from these rows according
/// to patterns: [`sequence_configs`], [`n_step_configs`], or your own. Each item has the priority of its pattern.
pub struct StructuredAdder {
    client: Client,
    configs: Vec<StructuredConfig>,
    writer: StructuredWriter,
    steps: Steps,
    /// The row that has no action yet.
    open: Option<Nest<Tensor>>,
}

impl StructuredAdder {
    /// # Errors
    /// A pattern is invalid, or the client cannot create a writer.
    pub fn new(
        client: &Client,
        configs: Vec<StructuredConfig>,
        spec: &EnvironmentSpec,
        extras: Option<&Nest<ArraySpec>>,
    ) -> Result<StructuredAdder> {
        let writer = client.structured_writer(configs.clone())?;
        Ok(StructuredAdder {
            client: client.clone(),
            configs,
            writer,
            steps: Steps::new(spec, extras)?,
            open: None,
        })
    }

    fn append(&mut self, rest: Nest<Tensor>) -> Result<()> {
        let needs = "an episode that has begun with add_first";
        let open = self.open.take().ok_or(RlError::Order { call: "add", needs })?;
        let (Nest::Dict(mut row), Nest::Dict(rest)) = (open, rest) else { return Ok(()) };
        row.extend(rest);
        let row = Nest::Dict(row);
        until_there_is_room(|| self.writer.append(&row))
    }
}

impl fmt::Debug for StructuredAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructuredAdder")
            .field("configs", &self.configs)
            .field("in_episode", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

impl Adder for StructuredAdder {
    fn add_first(&mut self, observation: View<'_>) -> Result<()> {
        if self.open.is_some() {
            // Ending an episode creates items, but abandoning one must not.
            self.writer.close()?;
            self.writer = self.client.structured_writer(self.configs.clone())?;
        }
        self.open = Some(self.steps.begun(observation, true)?);
        Ok(())
    }

    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        let (rest, next) = (self.steps.taken(action, step, extras)?, self.steps.begun(observation, false)?);
        self.append(rest)?;
        self.open = Some(next);
        if !step.last() {
            return Ok(());
        }
        let untaken = self.steps.untaken();
        self.append(untaken)?;
        until_there_is_room(|| self.writer.end_episode(true, CONFIRMATION_TIMEOUT))
    }

    fn discard(&mut self) {
        self.writer.discard();
    }
}

/// Returns the patterns for the items of [`SequenceAdder`](super::SequenceAdder). `step` is the spec of a row; see
/// [`step_spec`](super::step_spec).
///
/// # Errors
/// The length or the period is 0, or patterns cannot express the [`EndOfEpisode`]: padding with zeros, or continuing
/// into the next episode.
pub fn sequence_configs(
    table: &str,
    step: &Nest<ArraySpec>,
    length: usize,
    period: usize,
    end: EndOfEpisode,
) -> Result<Vec<StructuredConfig>> {
    let (rows, period) = (count("sequence_length", length)?, count("period", period)?);
    let last = |rows: i32| config(table, step, |column| column.slice(-rows..));
    let is_due = Condition::step_index().modulo(period.into(), i64::from(rows - 1) % i64::from(period));
    let long_enough = Condition::step_index().ge(i64::from(rows) - 1);
    let mut configs = vec![last(rows)?.condition(long_enough).condition(is_due)];
    match end {
        EndOfEpisode::Write => {
            let otherwise =
                Condition::step_index().not_modulo(period.into(), i64::from(rows - 1) % i64::from(period));
            let at_the_end = last(rows)?.condition(Condition::is_end_episode());
            configs.push(at_the_end.condition(long_enough).condition(otherwise));
        }
        EndOfEpisode::Truncate => {
            for short in 1..rows {
                let whole_episode = Condition::step_index().eq(i64::from(short) - 1);
                configs.push(last(short)?.condition(Condition::is_end_episode()).condition(whole_episode));
            }
            for missing in 1..period.min(rows) {
                let place = i64::from(rows - 1 - missing).rem_euclid(period.into());
                let at_the_end = last(rows - missing)?.condition(Condition::is_end_episode());
                let place = Condition::step_index().modulo(period.into(), place);
                configs.push(at_the_end.condition(long_enough).condition(place));
            }
        }
        EndOfEpisode::ZeroPad | EndOfEpisode::Continue => {
            let expected = "Write or Truncate, the only ones that patterns support";
            return Err(RlError::setting("end_of_episode", format!("{end:?}"), expected));
        }
    }
    Ok(configs)
}

/// Returns the patterns for transitions over up to `n` steps, as in [`TransitionAdder`](super::TransitionAdder), but
/// with the rewards and discounts of all steps, which the reader reduces with
/// [`NStepReturn::of`](super::NStepReturn::of).
///
/// `observation` contains the first and the last observation, `reward` and `discount` contain all steps, and the other
/// fields contain only the first step.
///
/// # Errors
/// `n` is 0, or `step` is not a row of [`step_spec`](super::step_spec).
pub fn n_step_configs(table: &str, step: &Nest<ArraySpec>, n: usize) -> Result<Vec<StructuredConfig>> {
    let n = count("n_step", n)?;
    let transition = |steps: i32| n_step_config(table, step, steps);
    let mut configs = Vec::new();
    for steps in 1..n {
        configs.push(transition(steps)?.condition(Condition::step_index().eq(steps.into())));
    }
    configs.push(transition(n)?.condition(Condition::step_index().ge(n.into())));
    for steps in (1..n).rev() {
        // The item that covers all steps of the episode already exists.
        let shorter = Condition::step_index().gt(steps.into());
        configs.push(transition(steps)?.condition(Condition::is_end_episode()).condition(shorter));
    }
    Ok(configs)
}

fn n_step_config(table: &str, step: &Nest<ArraySpec>, steps: i32) -> Result<StructuredConfig> {
    let step = reference_step(step);
    let Nest::Dict(fields) = step.columns() else {
        return Err(RlError::setting("a row", "no dict of fields", "as step_spec makes it"));
    };
    let start = -(steps + 1);
    let mut pattern = Vec::with_capacity(fields.len());
    for (name, columns) in fields {
        let mut cut = |column: &SourceColumn| match name.as_str() {
            "observation" => column.strided(start.., steps.unsigned_abs()),
            "reward" | "discount" => column.slice(start..-1),
            _ => column.slice(start..start + 1),
        };
        let nodes = columns.try_map(&mut cut)?;
        pattern.push((name.as_str(), nodes));
    }
    Ok(StructuredConfig::new(table, Nest::dict(pattern)))
}

fn config(
    table: &str,
    step: &Nest<ArraySpec>,
    mut cut: impl FnMut(&SourceColumn) -> relive_client::Result<PatternNode>,
) -> Result<StructuredConfig> {
    Ok(StructuredConfig::new(table, reference_step(step).columns().try_map(&mut cut)?))
}

/// Checks that a number of rows is in the range that patterns support, and returns it.
fn count(name: &'static str, rows: usize) -> Result<i32> {
    let fits = i32::try_from(rows).ok().filter(|rows| (1..i32::MAX).contains(rows));
    fits.ok_or_else(|| RlError::setting(name, rows, "from 1 to 2**31 - 2"))
}
