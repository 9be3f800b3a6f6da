//! The losses of a damaged checkpoint.

use std::path::Path;

use crate::error::Place;
use crate::{Error, ErrorKind, Loss};

/// The losses so far. Unless losses are accepted, the first loss is an error.
#[derive(Debug, Default)]
pub(super) struct Losses {
    are_borne: bool,
    list: Vec<Loss>,
}

impl Losses {
    pub(super) fn new(are_borne: bool) -> Self {
        Self { are_borne, list: Vec::new() }
    }

    pub(super) fn into_list(self) -> Vec<Loss> {
        self.list
    }

    /// Records the rest of a file as lost.
    pub(super) fn tolerate(&mut self, file: &Path, error: Error) -> Result<(), Error> {
        self.add(file, None, 0, error)
    }

    /// Records an item as lost. Consecutive items of one table form one loss.
    pub(super) fn tolerate_item(&mut self, file: &Path, table: &str, error: Error) -> Result<(), Error> {
        let is_next = |last: &&mut Loss| last.items > 0 && last.table.as_deref() == Some(table);
        match self.list.last_mut().filter(is_next) {
            Some(last) => last.items += 1,
            None => self.add(file, Some(table), 1, error)?,
        }
        Ok(())
    }

    /// Records missing items as lost. Some of them may already have been recorded.
    pub(super) fn tolerate_missing(
        &mut self,
        file: &Path,
        table: &str,
        items: u64,
        error: Error,
    ) -> Result<(), Error> {
        let known = self.list.iter().filter(|loss| loss.table.as_deref() == Some(table));
        let known: u64 = known.map(|loss| loss.items).sum();
        match items.saturating_sub(known) {
            0 if self.are_borne && known > 0 => Ok(()),
            rest => self.add(file, Some(table), rest, error),
        }
    }

    fn add(&mut self, file: &Path, table: Option<&str>, items: u64, error: Error) -> Result<(), Error> {
        if !self.are_borne || error.kind() != ErrorKind::Damaged {
            return Err(error);
        }
        let offset = error.place().map_or(0, |Place { offset, .. }| offset);
        let table = table.map(str::to_owned);
        self.list.push(Loss {
            file: file.to_string_lossy().into_owned(),
            offset,
            table,
            items,
            reason: error.reason(),
        });
        Ok(())
    }
}
