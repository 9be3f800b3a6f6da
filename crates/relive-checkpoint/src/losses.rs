//! Handles damage.

use std::fmt;
use std::io;

use crate::{Error, Loss};

/// Handles damage: either returns an error for the first damaged part, or collects all losses.
#[derive(Debug)]
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
