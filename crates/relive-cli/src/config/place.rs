//! The places of values in a TOML document: their lines, and errors about them.

use std::fmt;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::units::{BytesEntry, parse_seconds};

/// The path from the document to a value; shown as `table[0].rate_limiter`.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Key(String),
    Index(usize),
}

/// An error about a value that TOML itself accepts, with its place.
#[derive(Debug)]
pub(super) struct ValueError {
    pub(super) place: Place,
    pub(super) reason: String,
}

impl Place {
    /// Returns the place of `key` in this table.
    pub(super) fn key(&self, key: &str) -> Self {
        self.with(Part::Key(key.to_owned()))
    }

    /// Returns the place of element `index` of this array.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Part::Index(index))
    }

    /// Returns an error about this place.
    pub(super) fn value_error(&self, reason: impl fmt::Display) -> ValueError {
        ValueError { place: self.clone(), reason: reason.to_string() }
    }

    /// Reads the number of bytes at the given place.
    pub(super) fn bytes(&self, entry: &BytesEntry) -> Result<u64, ValueError> {
        entry.parse().map_err(|reason| self.value_error(reason))
    }

    /// Reads the number of seconds at the given place.
    pub(super) fn seconds(&self, seconds: f64) -> Result<Duration, ValueError> {
        parse_seconds(&seconds.to_string()).map_err(|reason| self.value_error(reason))
    }

    /// Returns the line of this value in `text`, or of the nearest enclosing value that exists.
    pub(super) fn line(&self, text: &str) -> Option<usize> {
        let document = DeTable::parse(text).ok()?;
        let Some((Part::Key(first), rest)) = self.0.split_first() else {
            return None;
        };
        let mut value = document.get_ref().get(first.as_str())?;
        let mut start = value.span().start;
        for part in rest {
            let Some(inner) = step(value.get_ref(), part) else { break };
            start = inner.span().start;
            value = inner;
        }
        Some(line_of(text, start))
    }

    fn with(&self, part: Part) -> Self {
        let mut parts = self.0.clone();
        parts.push(part);
        Self(parts)
    }
}

fn step<'a, 'i>(value: &'a DeValue<'i>, part: &Part) -> Option<&'a toml::Spanned<DeValue<'i>>> {
    match part {
        Part::Key(key) => value.as_table()?.get(key.as_str()),
        Part::Index(index) => value.as_array()?.get(*index),
    }
}

/// Returns the number of the line, from 1, that contains the byte at `offset`.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, part) in self.0.iter().enumerate() {
            match part {
                Part::Key(key) if depth == 0 => f.write_str(key)?,
                Part::Key(key) => write!(f, ".{key}")?,
                Part::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "port = 1\n\n[[table]]\nname = 'a'\n\n[[table]]\nname = 'b'\nrate_limiter = { min_size = 3 }\n";

    #[test]
    fn toml_keys_and_elements_are_located() {
        let tables = Place::default().key("table");
        assert_eq!(tables.index(0).key("name").line(TEXT), Some(4));
        let limiter = tables.index(1).key("rate_limiter");
        assert_eq!(limiter.line(TEXT), Some(8));
        assert_eq!(limiter.key("min_size").to_string(), "table[1].rate_limiter.min_size");
    }

    #[test]
    fn missing_keys_are_located_where_they_belong() {
        let second = Place::default().key("table").index(1);
        assert_eq!(second.key("max_size").line(TEXT), Some(6));
        assert_eq!(
            Place::default().key("table").index(7).line(TEXT),
            Place::default().key("table").line(TEXT)
        );
        assert_eq!(Place::default().key("bind").line(TEXT), None);
    }
}
