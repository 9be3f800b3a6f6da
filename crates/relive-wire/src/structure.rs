//! What the items of a table look like, as TensorFlow's message for nested structures.
//!
//! A column is a `none_value`. A place without a column is a message without any value.

use relive_tensor::Nest;

use crate::WireError;
use crate::nested;
use crate::tensorflow::structured_value::Kind;
use crate::tensorflow::{NoneValue, StructuredValue};

/// The message for `structure`.
#[must_use]
pub fn to_wire(structure: &Nest<()>) -> StructuredValue {
    nested::to_wire(structure, &|()| Kind::NoneValue(NoneValue {}), None)
}

/// The structure that `message` describes.
///
/// # Errors
/// Leaves that are something else than columns, nesting deeper than
/// [`MAX_SIGNATURE_DEPTH`](crate::limits::MAX_SIGNATURE_DEPTH).
pub fn from_wire(message: &StructuredValue) -> Result<Nest<()>, WireError> {
    nested::from_wire(message, &mut Columns)
}

struct Columns;

impl nested::Leaves for Columns {
    type Leaf = ();

    fn leaf(&mut self, kind: Option<&Kind>) -> Result<Nest<()>, String> {
        match kind {
            Some(Kind::NoneValue(_)) => Ok(Nest::Leaf(())),
            None => Ok(Nest::None),
            Some(other) => Err(format!("a leaf must be a none_value, not {}", nested::kind_name(other))),
        }
    }

    fn error(&self, path: String, reason: String) -> WireError {
        WireError::Structure { path, reason }
    }
}
