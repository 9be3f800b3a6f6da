//! The findings of rules.

use std::fmt;

/// One violation: its location, and a message with the remedy and the reason for the rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    place: String,
    message: String,
}

impl Finding {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
