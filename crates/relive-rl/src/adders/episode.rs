//! Whole episodes.

use std::fmt;

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_env::{ArraySpec, EnvironmentSpec, TimeStep, View};

use super::Adder;
use super::episode_writer::EpisodeWriter;
use super::priority::Priority;
use super::step::Steps;
use crate::{Result, RlError};

/// Creates the rows that pad episodes, from a row of zeros.
pub type Padding = dyn Fn(&Nest<Tensor>) -> Nest<Tensor> + Send;

/// Writes one item per episode. It contains all rows, including the row of the last observation, in the
/// format of [`SequenceAdder`](super::SequenceAdder).
pub struct EpisodeAdder {
    rows: EpisodeWriter,
    max_length: usize,
    padding: Option<Box<Padding>>,
    tables: Vec<(String, Priority)>,
}

impl EpisodeAdder {
    /// Writes episodes of at most `max_length` rows to `table` with priority 1. An episode of `T` steps has
    /// `T + 1` rows.
    ///
    /// # Errors
    /// `max_length` is below 2, or the client cannot create a writer.
    pub fn new(
        client: &Client,
        table: &str,
        spec: &EnvironmentSpec,
        extras: Option<&Nest<ArraySpec>>,
        max_length: usize,
    ) -> Result<EpisodeAdder> {
        if max_length < 2 {
            return Err(RlError::setting("max_sequence_length", max_length, "at least 2"));
        }
        let rows = EpisodeWriter::new(client, Steps::new(spec, extras)?, "max_sequence_length", max_length)?;
        let tables = vec![(table.to_owned(), Priority::default())];
        Ok(EpisodeAdder { rows, max_length, padding: None, tables })
    }

    /// Pads episodes to their maximum length with the row that `padding` creates from a row of zeros.
    #[must_use]
    pub fn padded(
        mut self,
        padding: impl Fn(&Nest<Tensor>) -> Nest<Tensor> + Send + 'static,
    ) -> EpisodeAdder {
        self.padding = Some(Box::new(padding));
        self
    }

    /// Writes to the given tables instead, each with its own rule for priorities.
    #[must_use]
    pub fn tables(mut self, tables: impl IntoIterator<Item = (String, Priority)>) -> EpisodeAdder {
        self.tables = tables.into_iter().collect();
        self
    }

    fn write(&mut self) -> Result<()> {
        self.rows.finish()?;
        if let Some(padding) = &self.padding {
            let row = padding(self.rows.zeros());
            while self.rows.rows() < self.max_length {
                self.rows.append(&row)?;
            }
        }
        self.rows.create_item(self.rows.rows(), &mut self.tables)?;
        self.rows.end()
    }
}

impl fmt::Debug for EpisodeAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpisodeAdder")
            .field("tables", &self.tables)
            .field("max_length", &self.max_length)
            .finish_non_exhaustive()
    }
}

impl Adder for EpisodeAdder {
    fn add_first(&mut self, observation: View<'_>) -> Result<()> {
        self.rows.end()?;
        self.rows.begin(observation)
    }

    /// # Errors
    /// The errors common to all adders, or the episode exceeds the maximum length.
    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<()> {
        // This call completes a row; the row for the following observation is not complete yet.
        let rows = self.rows.rows() + 2;
        if rows > self.max_length {
            let got = format!("{rows} rows or more");
            return Err(RlError::setting(
                "the length of an episode",
                got,
                "at most max_sequence_length rows",
            ));
        }
        self.rows.add(action, step, observation, extras)?;
        if step.last() { self.write() } else { Ok(()) }
    }

    fn discard(&mut self) {
        self.rows.discard();
    }
}
