//! Errors in a graph, and where they occurred.

use std::error::Error;
use std::fmt;

use crate::item::Source;

/// A result with [`FlowError`].
pub type Result<T, E = FlowError> = std::result::Result<T, E>;

/// An error in a graph. It names the operator and, if known, the source and the number of the item.
///
/// ```
/// use relive_flow::{ErrorKind, Flow};
///
/// let mut flow = Flow::from_iter("words", ["7", "x", "9"]).try_for_each(str::parse::<u32>);
/// assert_eq!(flow.next().unwrap().unwrap(), 7);
/// let error = flow.next().unwrap().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Operator);
/// assert_eq!(error.to_string(), "for_each failed at item 1: invalid digit found in string");
/// assert_eq!(flow.next().unwrap().unwrap(), 9);
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FlowError(Box<Inner>);

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operator was created with invalid arguments.
    Invalid,
    /// The function of an operator returned an error, which is the [`source`](Error::source).
    Operator,
    /// The function of an operator panicked.
    Panicked,
    /// The graph waits for itself.
    Deadlock,
    /// The graph cannot be saved, or the saved state belongs to another graph.
    Unsaved,
    /// No item arrived within the caller's timeout.
    Timeout,
    /// No item arrived within the time of [`Flow::timeout`](crate::Flow::timeout).
    Late,
}

#[derive(Debug, thiserror::Error)]
struct Inner {
    kind: ErrorKind,
    place: Option<Place>,
    text: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// A place in a graph, and an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) operator: String,
    pub(crate) source: Option<Source>,
    /// The number that the item has at the operator, counted from 0.
    pub(crate) item: u64,
}

impl FlowError {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, place: None, text: text.into(), cause: None }))
    }

    pub(crate) fn at(kind: ErrorKind, place: Place, text: String) -> Self {
        Self(Box::new(Inner { kind, place: Some(place), text, cause: None }))
    }

    pub(crate) fn caused(place: Place, cause: Box<dyn Error + Send + Sync>) -> Self {
        let (kind, text) = (ErrorKind::Operator, cause.to_string());
        Self(Box::new(Inner { kind, place: Some(place), text, cause: Some(cause) }))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operator where the error occurred.
    #[must_use]
    pub fn operator(&self) -> Option<&str> {
        self.0.place.as_ref().map(|place| place.operator.as_str())
    }

    /// Returns the source of the item at which the error occurred.
    #[must_use]
    pub fn item_source(&self) -> Option<Source> {
        self.0.place.as_ref()?.source
    }

    /// Returns the number of the item at the operator, counted from 0.
    #[must_use]
    pub fn item(&self) -> Option<u64> {
        self.0.place.as_ref().map(|place| place.item)
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Place { operator, source, item }) = &self.place else { return f.write_str(&self.text) };
        let how = if self.kind == ErrorKind::Panicked { "panicked" } else { "failed" };
        write!(f, "{operator} {how} at item {item}")?;
        if let Some(source) = source {
            write!(f, " of {source}")?;
        }
        write!(f, ": {}", self.text)
    }
}
