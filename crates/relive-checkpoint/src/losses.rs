//! Handles damage.

use std::fmt;
use std::io;

use crate::{Error, Loss};

/// Handles damage: either returns an error for the first damaged part, or collects all losses.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    salvage: bool,
    found: Vec<Loss>,
}

impl Losses {
    pub(crate) fn new(salvage: bool) -> Self {
        Self { salvage, found: Vec::new() }
    }

    pub(crate) fn salvages(&self) -> bool {
        self.salvage
    }

    /// Records damage. Returns the number assigned to it.
    ///
    /// # Errors
    /// The given loss, unless all losses are being collected.
    pub(crate) fn note(&mut self, loss: Loss) -> Result<usize, Error> {
        if !self.salvage {
            return Err(Error::lost(&loss));
        }
        self.found.push(loss);
        Ok(self.found.len() - 1)
    }

    /// Like [`note`](Self::note), but for a part that several tables share.
    pub(crate) fn damage(
        &mut self,
        file: &str,
        offset: u64,
        reason: impl fmt::Display,
    ) -> Result<usize, Error> {
        self.note(Loss::of(file, offset, reason))
    }

    /// Like [`note`](Self::note), but for a part that could not be read. A missing part counts as damage, whereas other
    /// errors are not the fault of the file. If losses are being collected, both kinds are collected.
    pub(crate) fn unreadable(&mut self, file: &str, offset: u64, error: io::Error) -> Result<usize, Error> {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damage(file, offset, "the file ends inside the record"),
            io::ErrorKind::NotFound => self.damage(file, offset, "the file is missing"),
            _ if self.salvage => self.damage(file, offset, error),
            _ => Err(Error::storage("read", file, error)),
        }
    }

    /// Records the damage that an error describes. Returns the number assigned to it.
    ///
    /// # Errors
    /// The given error, unless it describes damage and all losses are being collected.
    pub(crate) fn note_error(&mut self, error: Error) -> Result<usize, Error> {
        match error.loss().filter(|_| self.salvage) {
            Some(loss) => self.note(loss),
            None => Err(error),
        }
    }

    /// Like [`note_error`](Self::note_error), but for a lost item. Consecutive items of one table form one loss.
    pub(crate) fn note_item(&mut self, table: &str, error: Error) -> Result<(), Error> {
        let is_of_table = |last: &Loss| last.items > 0 && last.table.as_deref() == Some(table);
        let number = match self.found.last().is_some_and(is_of_table) {
            true => self.found.len() - 1,
            false => self.note_error(error)?,
        };
        self.attribute(number, table, 1);
        Ok(())
    }

    /// Like [`note_error`](Self::note_error), but for missing items, some of which may already have been recorded.
    pub(crate) fn note_missing(&mut self, table: &str, items: u64, error: Error) -> Result<(), Error> {
        let known = self.items_of(table);
        let unknown = items.saturating_sub(known);
        if known == 0 || unknown > 0 {
            let number = self.note_error(error)?;
            self.attribute(number, table, unknown);
        }
        Ok(())
    }

    /// Adds items of a table to the lost items of a recorded loss.
    pub(crate) fn attribute(&mut self, number: usize, table: &str, items: u64) {
        let Some(loss) = self.found.get_mut(number) else { return };
        if loss.table.is_none() {
            loss.table = Some(table.to_owned());
        }
        if loss.table.as_deref() == Some(table) {
            loss.items += items;
        } else {
            let loss = Loss { table: Some(table.to_owned()), items, ..loss.clone() };
            self.found.push(loss);
        }
    }

    /// Returns the known number of lost items of a table.
    pub(crate) fn items_of(&self, table: &str) -> u64 {
        self.found.iter().filter(|loss| loss.table.as_deref() == Some(table)).map(|loss| loss.items).sum()
    }

    /// Returns the place of the first damaged part.
    pub(crate) fn first_offset(&self) -> Option<u64> {
        self.found.first().map(|loss| loss.offset)
    }

    pub(crate) fn into_found(self) -> Vec<Loss> {
        self.found
    }
}

impl Loss {
    /// Returns a loss to which no lost items are attributed so far.
    pub(crate) fn of(file: &str, offset: u64, reason: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), offset, table: None, items: 0, reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::Place;

    fn damage(offset: u64) -> Error {
        Error::damaged(Path::new("f"), Some(Place { record: 1, offset }), "broken")
    }

    #[test]
    fn consecutive_items_of_a_table_are_one_loss() {
        let mut losses = Losses::new(true);
        for (offset, table) in [(10, "a"), (20, "a"), (30, "b"), (40, "a")] {
            losses.note_item(table, damage(offset)).unwrap();
        }
        losses.note_missing("a", 5, damage(50)).unwrap();
        losses.note_missing("b", 1, damage(60)).unwrap();
        let loss = |offset, table: &str, items| Loss {
            table: Some(table.to_owned()),
            items,
            ..Loss::of("f", offset, "broken")
        };
        let expected = [loss(10, "a", 2), loss(30, "b", 1), loss(40, "a", 1), loss(50, "a", 2)];
        assert_eq!(losses.into_found(), expected);
    }

    #[test]
    fn the_first_error_ends_the_loading_unless_it_is_damage_that_is_accepted() {
        let refused = Losses::new(false).note_missing("a", 0, damage(10)).unwrap_err();
        assert_eq!(refused.to_string(), "f: record 1, at byte 10 of the content: broken");
        let other = Error::storage("read", "f", io::Error::other("no disk"));
        assert_eq!(Losses::new(true).note_error(other).unwrap_err().to_string(), "cannot read f: no disk");
    }
}
