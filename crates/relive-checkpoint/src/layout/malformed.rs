//! Reasons for malformed bytes.

use thiserror::Error;

/// The error for malformed bytes in Relive's format, except for wrong checksums.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("the length field says {needed} bytes, but only {left} remain")]
    Short { needed: u64, left: u64 },
    #[error("{bytes} unexpected bytes follow")]
    Long { bytes: u64 },
    #[error("{what} cannot be {code}")]
    Code { what: &'static str, code: u64 },
    #[error("a name is not UTF-8 text")]
    Text,
    #[error("the field {field} is missing")]
    Missing { field: &'static str },
    #[error("the field {field} occurs twice")]
    Repeated { field: &'static str },
    #[error("the field {tag} is unknown: a later version of Relive wrote it")]
    UnknownField { tag: u16 },
    #[error("the signature is more than {limit} levels deep")]
    Deep { limit: usize },
    #[error("{what}: the count is {counted}, but there are {found}")]
    Count { what: &'static str, counted: u64, found: u64 },
}
