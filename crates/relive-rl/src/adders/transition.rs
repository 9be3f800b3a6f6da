//! Transitions over several steps.

use std::fmt;

use relive_client::blocking::{Client, TrajectoryWriter};
use relive_client::{Column, Nest, Tensor, TrajectoryWriterOptions};
use relive_env::{ArraySpec, EnvironmentSpec, State, TimeStep, View};

use super::Adder;
use super::n_step::{NStepReturn, NStepWindow};
use super::room::{CONFIRMATION_TIMEOUT, until_there_is_room};
use super::row::RowColumns;
use crate::{Result, RlError, Saveable, state};

/// Writes transitions over up to `n` steps. Each step adds an item that extends from the observation `n` steps earlier,
/// or from the beginning of the episode, to the newest observation. The end of an episode also adds the transitions
/// over fewer steps that end there. An episode of `T` steps yields `T + min(n, T) − 1` items.
///
/// Rewards and discounts are [n-step returns](NStepReturn) in float32. If the actor has [extras](Self::with_extras), an
/// item has the extras of its first step.
pub struct TransitionAdder {
    writer: TrajectoryWriter,
    /// At least one table; the items are distributed over the tables in turn.
    tables: Vec<String>,
    next: usize,
    priority: f64,
    observations: RowColumns,
    actions: RowColumns,
    extras: RowColumns,
    window: NStepWindow,
    in_episode: bool,
}

impl TransitionAdder {
    /// Writes transitions over `n` steps to `table`. `additional_discount` is the agent's own discount.
    ///
    /// # Errors
    /// `n` is 0, or the client cannot create a writer.
    pub fn new(
        client: &Client,
        table: &str,
        spec: &EnvironmentSpec,
        n: usize,
        additional_discount: f32,
    ) -> Result<TransitionAdder> {
        let kept = u32::try_from(n).ok().and_then(|n| n.checked_add(1)).filter(|kept| *kept > 1);
        let kept = kept.ok_or_else(|| RlError::setting("n_step", n, "at least 1"))?;
        let options = TrajectoryWriterOptions::new(kept).chunk_length(1);
        Ok(TransitionAdder {
            writer: client.trajectory_writer(options)?,
            tables: vec![table.to_owned()],
            next: 0,
            priority: 1.0,
            observations: RowColumns::new(&spec.observations),
            actions: RowColumns::new(&spec.actions),
            extras: RowColumns::new(&Nest::None),
            window: NStepWindow::new(n, additional_discount),
            in_episode: false,
        })
    }

    /// Declares the actor's extras.
    #[must_use]
    pub fn with_extras(mut self, extras: &Nest<ArraySpec>) -> TransitionAdder {
        self.extras = RowColumns::new(extras);
        self
    }

    /// Distributes the items over these tables in turn, beginning with the table that has the fewest inserts. The item
    /// counts of the tables therefore differ by at most the number of adders, even if adders restart.
    ///
    /// # Errors
    /// The insert counts of the tables cannot be read.
    pub fn in_turn(mut self, client: &Client, tables: &[String]) -> Result<TransitionAdder> {
        if !tables.is_empty() {
            self.tables = tables.to_vec();
        }
        if self.tables.len() > 1 {
            let info = client.server_info()?;
            self.tables.sort_by_key(|name| info.table(name).map_or(0, |table| table.inserts));
        }
        Ok(self)
    }

    /// Writes an item over the `made.steps` steps up to the observation `behind` rows before the newest.
    fn create_item(&mut self, made: NStepReturn, behind: usize) -> Result<()> {
        let numbers = [("reward", Tensor::scalar(made.reward)), ("discount", Tensor::scalar(made.discount))];
        self.writer.append_partial(&Nest::dict(numbers.map(|(name, value)| (name, Nest::Leaf(value)))))?;
        let end = -1 - position(behind);
        let start = end - position(made.steps);
        let history = self.writer.history();
        let column = |path: &str, at: i64| -> Result<Column> { Ok(history.column(path)?.step(at)?) };
        let nest = |rows: &RowColumns, name: &str, at| rows.columns(name, |path| column(path, at));
        let mut fields = vec![
            ("action", nest(&self.actions, "action", start)?),
            ("discount", Nest::Leaf(column("discount", -1)?)),
            ("next_observation", nest(&self.observations, "observation", end)?),
            ("observation", nest(&self.observations, "observation", start)?),
            ("reward", Nest::Leaf(column("reward", -1)?)),
        ];
        if self.extras.len() > 0 {
            fields.push(("extras", nest(&self.extras, "extras", start)?));
        }
        let trajectory = Nest::dict(fields);
        let (writer, table, priority) = (&mut self.writer, &self.tables[self.next], self.priority);
        until_there_is_room(|| writer.create_item(table, priority, trajectory.clone()))?;
        self.next = (self.next + 1) % self.tables.len();
        Ok(())
    }

    /// Waits until all items of the episode are in the table.
    fn end_episode(&mut self) -> Result<()> {
        until_there_is_room(|| self.writer.end_episode(true, CONFIRMATION_TIMEOUT))
    }

    /// Creates the remaining items at the end of an episode: the transitions over fewer than `n` steps.
    fn shrink(&mut self) -> Result<()> {
        let mut behind = 0;
        while let Some(made) = self.window.shrink() {
            // Each item has its own reward and discount, in a row without other fields.
            self.writer.append(&Nest::dict::<&str, Nest<Tensor>>([]))?;
            behind += 1;
            self.create_item(made, behind)?;
        }
        Ok(())
    }
}

fn position(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

impl fmt::Debug for TransitionAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransitionAdder")
            .field("tables", &self.tables)
            .field("window", &self.window)
            .field("in_episode", &self.in_episode)
            .finish_non_exhaustive()
    }
}

impl Adder for TransitionAdder {
    fn add_first(&mut self, observation: View<'_>) -> Result<()> {
        if self.in_episode {
            self.end_episode()?;
        }
        self.window.clear();
        let observation = self.observations.tensors(observation)?;
        self.writer.append_partial(&Nest::dict([("observation", observation)]))?;
        self.in_episode = true;
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "rewards and discounts of items are float32")]
    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        if !self.in_episode {
            return Err(RlError::Order { call: "add", needs: "a preceding call of add_first" });
        }
        if extras.num_leaves() != self.extras.len() {
            let (got, expected) =
                (format!("{} leaves", extras.num_leaves()), "the number that the adder was created for");
            return Err(RlError::setting("extras", got, expected));
        }
        let (action, observation) = (self.actions.tensors(action)?, self.observations.tensors(observation)?);
        self.append_action(action, self.extras.tensors(extras)?)?;
        self.writer.append_partial(&Nest::dict([("observation", observation)]))?;
        let made = self.window.push(step.reward as f32, step.discount as f32);
        self.create_item(made, 0)?;
        if step.last() {
            self.shrink()?;
            self.in_episode = false;
            self.end_episode()?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        self.writer.discard();
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "an adder of transitions";

/// Saves the steps at which future items begin, so that an episode can continue after a restore.
impl Saveable for TransitionAdder {
    fn save(&mut self) -> Vec<u8> {
        // The history was written by this adder, so it is readable.
        let mut cells = self.cells().unwrap_or_default();
        state::save(|state| self.visit(state, &mut cells))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut cells = Vec::new();
        state::restore(WHAT, bytes, |state| self.visit(state, &mut cells))?;
        if !self.in_episode {
            return Ok(());
        }
        let mut cells = cells.into_iter();
        for _ in 0..self.window.len() {
            self.append_observation(&mut cells)?;
            let action = self.actions.restored(&mut cells)?;
            let extras = self.extras.restored(&mut cells)?;
            self.append_action(action, extras)?;
        }
        self.append_observation(&mut cells)
    }
}

impl TransitionAdder {
    fn append_observation(&mut self, cells: &mut impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let observation = self.observations.restored(cells)?;
        Ok(self.writer.append_partial(&Nest::dict([("observation", observation)]))?)
    }

    /// Completes the row of an observation.
    fn append_action(&mut self, action: Nest<Tensor>, extras: Nest<Tensor>) -> Result<()> {
        let mut fields = vec![("action", action)];
        if self.extras.len() > 0 {
            fields.push(("extras", extras));
        }
        Ok(self.writer.append(&Nest::dict(fields))?)
    }

    /// Returns the number of values in `steps` steps and the observation after them.
    fn cells_of(&self, steps: usize) -> usize {
        let of_step = self.observations.len() + self.actions.len() + self.extras.len();
        steps * of_step + self.observations.len()
    }

    /// Returns the bytes of the values that a restored adder needs.
    fn cells(&self) -> Result<Vec<Vec<u8>>> {
        if !self.in_episode {
            return Ok(Vec::new());
        }
        let history = self.writer.history();
        let mut cells = Vec::new();
        let mut add_column = |rows: &RowColumns, name: &str, at: i64| -> Result<()> {
            let columns = rows.columns(name, |path| Ok(history.column(path)?.step(at)?))?;
            for column in columns.leaves() {
                cells.push(column.to_tensor()?.bytes().map_or_else(Vec::new, |bytes| bytes.to_vec()));
            }
            Ok(())
        };
        for behind in (1..=self.window.len()).rev() {
            let at = -1 - position(behind);
            add_column(&self.observations, "observation", at)?;
            add_column(&self.actions, "action", at)?;
            add_column(&self.extras, "extras", at)?;
        }
        add_column(&self.observations, "observation", -1)?;
        Ok(cells)
    }

    fn visit(&mut self, state: &mut State<'_>, cells: &mut Vec<Vec<u8>>) {
        state.field(&mut self.in_episode);
        self.window.visit(state);
        let count = if self.in_episode { self.cells_of(self.window.len()) } else { 0 };
        cells.resize(count, Vec::new());
        cells.iter_mut().for_each(|cell| state.bytes(cell));
    }
}
