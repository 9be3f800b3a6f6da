//! From a text to the storage that it names.

use std::sync::Arc;

use super::{LocalStorage, Storage};
use crate::{Error, ErrorKind};

/// The storage at a path, or at a URL.
pub(crate) fn open(location: &str) -> Result<Arc<dyn Storage>, Error> {
    match location.split_once("://") {
        None => Ok(Arc::new(LocalStorage::new(location))),
        Some(("file", path)) => Ok(Arc::new(LocalStorage::new(path))),
        Some((scheme, _)) => {
            let text = format!("cannot use {location}: there is no storage of the kind `{scheme}`");
            Err(Error::plain(ErrorKind::Location, text))
        }
    }
}
