//! Sequences of steps.

use std::fmt;

use relive_client::Nest;
use relive_client::blocking::Client;
use relive_env::{ArraySpec, EnvironmentSpec, TimeStep, View};

use super::Adder;
use super::episode_writer::EpisodeWriter;
use super::priority::Priority;
use super::step::Steps;
use crate::{Result, RlError, Saveable, state};

/// What to do with rows at the end of an episode that do not fill a period.
///
/// The row of the last observation counts as a row of the episode. The first sequence is *due* when the episode has as
/// many rows as a sequence; after that, a sequence is due after every period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndOfEpisode {
    /// Pads with rows of zeros until a sequence is due; that sequence is the last one of the episode.
    #[default]
    ZeroPad,
    /// Writes a shorter sequence with the episode's rows that the next due sequence would have contained.
    Truncate,
    /// Writes a sequence of full length from the last rows. Nothing is written for shorter episodes.
    Write,
    /// Writes nothing: sequences continue into the next episode, and its first row is marked as a start.
    Continue,
}

/// Writes sequences of `length` rows, one every `period` rows.
///
/// An item has the fields of [`step_spec`](super::step_spec), each with a leading dimension of rows. Row `t` contains
/// the observation, the action taken for it, and the resulting reward and discount. In the row of an episode's last
/// observation, the action, reward and discount are zeros.
///
/// ```
/// use relive_client::blocking::Client;
/// use relive_rl::adders::{EndOfEpisode, SequenceAdder};
/// # use relive_engine::Engine;
/// # use relive_env::Environment;
/// # use relive_table::TableConfig;
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?)?;
/// let spec = relive_env::make("catch/0", 1)?.spec().clone();
/// let adder = SequenceAdder::new(&client, "replay", &spec, None, 20, 10)?.end_of_episode(EndOfEpisode::Truncate);
/// # Ok::<(), relive_rl::RlError>(())
/// ```
pub struct SequenceAdder {
    rows: EpisodeWriter,
    length: usize,
    period: usize,
    end: EndOfEpisode,
    tables: Vec<(String, Priority)>,
}

impl SequenceAdder {
    /// Writes sequences to `table` with priority 1. `extras` describes the actor's outputs other than actions, if it
    /// has any.
    ///
    /// # Errors
    /// The length or the period is 0, or the client cannot create a writer.
    pub fn new(
        client: &Client,
        table: &str,
        spec: &EnvironmentSpec,
        extras: Option<&Nest<ArraySpec>>,
        length: usize,
        period: usize,
    ) -> Result<SequenceAdder> {
        if period == 0 {
            return Err(RlError::setting("period", period, "at least 1"));
        }
        let rows = EpisodeWriter::new(client, Steps::new(spec, extras)?, "sequence_length", length)?;
        let tables = vec![(table.to_owned(), Priority::default())];
        Ok(SequenceAdder { rows, length, period, end: EndOfEpisode::default(), tables })
    }

    /// Sets what happens to the rows at the end of an episode.
    #[must_use]
    pub fn end_of_episode(mut self, end: EndOfEpisode) -> SequenceAdder {
        self.end = end;
        self
    }

    /// Writes to the given tables instead, each with its own rule for priorities.
    #[must_use]
    pub fn tables(mut self, tables: impl IntoIterator<Item = (String, Priority)>) -> SequenceAdder {
        self.tables = tables.into_iter().collect();
        self
    }

    /// Waits until all created items are in their tables. Unless sequences continue into the next episode, the end of
    /// an episode also flushes.
    ///
    /// # Errors
    /// The table is closed.
    pub fn flush(&mut self) -> Result<()> {
        self.rows.flush()
    }

    fn is_due(&self) -> bool {
        self.missing() == 0
    }

    /// Returns the number of rows until a sequence is due.
    fn missing(&self) -> usize {
        let rows = self.rows.rows();
        let difference = rows.abs_diff(self.length);
        if rows <= self.length { difference } else { difference.next_multiple_of(self.period) - difference }
    }

    /// Creates the item at the end of an episode that has complete rows.
    fn last_item(&mut self) -> Result<()> {
        let (missing, length) = (self.missing(), self.length);
        let last = match self.end {
            EndOfEpisode::Continue => self.is_due().then_some(length),
            EndOfEpisode::Write => (self.rows.rows() >= length).then_some(length),
            // If the period is longer than a sequence, the next sequence may not contain any row of the episode.
            EndOfEpisode::Truncate => length.checked_sub(missing).filter(|rows| *rows > 0),
            EndOfEpisode::ZeroPad if missing >= length => None,
            EndOfEpisode::ZeroPad => {
                let zeros = self.rows.zeros().clone();
                for _ in 0..missing {
                    self.rows.append(&zeros)?;
                }
                Some(length)
            }
        };
        last.map_or(Ok(()), |rows| self.rows.create_item(rows, &mut self.tables))
    }
}

impl fmt::Debug for SequenceAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceAdder")
            .field("tables", &self.tables)
            .field("length", &self.length)
            .field("period", &self.period)
            .field("end_of_episode", &self.end)
            .finish_non_exhaustive()
    }
}

impl Adder for SequenceAdder {
    fn add_first(&mut self, observation: View<'_>) -> Result<()> {
        if self.rows.is_open() || self.end != EndOfEpisode::Continue {
            self.rows.end()?;
        }
        self.rows.begin(observation)
    }

    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        self.rows.add(action, step, observation, extras)?;
        if self.is_due() {
            self.rows.create_item(self.length, &mut self.tables)?;
        }
        if !step.last() {
            return Ok(());
        }
        self.rows.finish()?;
        self.last_item()?;
        if self.end == EndOfEpisode::Continue { Ok(()) } else { self.rows.end() }
    }

    fn discard(&mut self) {
        self.rows.discard();
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "an adder of sequences";

/// Saves the rows with which future sequences begin, so that an episode can continue after a restore.
impl Saveable for SequenceAdder {
    fn save(&mut self) -> Vec<u8> {
        // The history was written by this adder, so it is readable.
        let mut cells = self.rows.cells().unwrap_or_default();
        state::save(|state| self.rows.visit(state, &mut cells))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let mut cells = Vec::new();
        state::restore(WHAT, bytes, |state| self.rows.visit(state, &mut cells))?;
        self.rows.restore(cells)
    }
}
