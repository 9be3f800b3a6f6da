//! Files of numpy's `savez`: a zip archive of arrays.

mod array;
mod zip;

use std::path::Path;

pub(super) use array::Array;
use zip::Archive;

use crate::{Result, RlError};

/// A file of arrays.
pub(super) struct Npz {
    archive: Archive,
    path: String,
}

impl Npz {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, or is no archive.
    pub(super) fn open(path: &Path) -> Result<Npz> {
        Ok(Npz { archive: Archive::open(path)?, path: path.display().to_string() })
    }

    /// The names of all arrays.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.names().filter_map(|name| name.strip_suffix(".npy"))
    }

    /// The array of a name, if there is one.
    ///
    /// # Errors
    /// It is damaged, or has values that are no plain numbers.
    pub(super) fn array(&mut self, name: &str) -> Result<Option<Array>> {
        match self.archive.read(&format!("{name}.npy")) {
            None => Ok(None),
            Some(bytes) => {
                let array = bytes.and_then(Array::parse);
                array.map(Some).map_err(|reason| self.refused(name, reason))
            }
        }
    }

    /// An error of this file, and of an array there.
    pub(super) fn refused(&self, array: &str, reason: impl Into<String>) -> RlError {
        RlError::Dataset { path: self.path.clone(), array: array.to_owned(), reason: reason.into() }
    }
}
