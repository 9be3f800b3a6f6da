//! Files of numpy's `savez`: a zip archive of arrays.

use std::path::Path;

use super::array::Array;
use super::zip::Archive;
use crate::{Result, RlError};

/// An open file of arrays.
pub(crate) struct Npz {
    archive: Archive,
    path: String,
}

impl Npz {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not an archive.
    pub(crate) fn open(path: &Path) -> Result<Npz> {
        Ok(Npz { archive: Archive::open(path)?, path: path.display().to_string() })
    }

    /// Returns the names of all arrays.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.names().filter_map(|name| name.strip_suffix(".npy"))
    }

    /// Returns the array with the given name, if there is one.
    ///
    /// # Errors
    /// The array is damaged, or has elements that are not plain numbers.
    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Array>> {
        match self.archive.read(&format!("{name}.npy")) {
            None => Ok(None),
            Some(bytes) => {
                let array = bytes.and_then(|bytes| Array::parse(&bytes));
                array.map(Some).map_err(|reason| self.refused(name, reason))
            }
        }
    }

    /// Creates an error for an array of this file.
    pub(crate) fn refused(&self, array: &str, reason: impl Into<String>) -> RlError {
        RlError::Dataset { path: self.path.clone(), array: array.to_owned(), reason: reason.into() }
    }
}
