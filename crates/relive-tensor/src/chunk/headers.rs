//! The headers of a chunk's columns.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use super::header::ColumnHeader;

/// The headers of all columns of a chunk.
#[derive(Clone, Debug)]
pub(super) enum Headers {
    /// The header of one column, which needs no heap memory.
    One(ColumnHeader),
    Several(Arc<[ColumnHeader]>),
}

impl Deref for Headers {
    type Target = [ColumnHeader];

    fn deref(&self) -> &[ColumnHeader] {
        match self {
            Self::One(header) => std::slice::from_ref(header),
            Self::Several(headers) => headers,
        }
    }
}

impl From<SmallVec<[ColumnHeader; 1]>> for Headers {
    fn from(headers: SmallVec<[ColumnHeader; 1]>) -> Self {
        match headers.into_inner() {
            Ok([header]) => Self::One(header),
            Err(mut headers) if headers.len() == 1 => Self::One(headers.remove(0)),
            Err(headers) => Self::Several(headers.into_iter().collect()),
        }
    }
}
