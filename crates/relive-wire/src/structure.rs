//! The structure of a table's items, as TensorFlow's message for nested structures.
//!
//! A column is a `none_value`. [`Nest::None`] is a message without a value.

use std::sync::Arc;

use relive_table::ItemStructure;
use relive_tensor::Nest;

use crate::WireError;
use crate::nested;
use crate::tensorflow::structured_value::Kind;
use crate::tensorflow::{NoneValue, StructuredValue};
use crate::v1;

/// Converts `structure` to a message.
#[must_use]
pub fn to_wire(structure: &Nest<()>) -> StructuredValue {
    nested::to_wire(structure, &|()| Kind::NoneValue(NoneValue {}), None)
}

/// Converts `message` to a structure.
///
/// # Errors
/// A leaf is not a column, or the nesting is deeper than [`MAX_SIGNATURE_DEPTH`](crate::limits::MAX_SIGNATURE_DEPTH).
pub fn from_wire(message: &StructuredValue) -> Result<Nest<()>, WireError> {
    nested::from_wire(message, &mut Columns)
}

/// Converts the structure of a table's items, if known, to a message.
#[must_use]
pub fn of_items(structure: Option<&ItemStructure>) -> v1::ItemStructure {
    structure.map_or_else(v1::ItemStructure::default, |structure| v1::ItemStructure {
        names: Some(to_wire(&structure.names)),
        is_signature: structure.is_signature,
        disputed_by: structure.disputed_by.as_deref().map(to_wire),
    })
}

/// Converts `message` to the structure of a table's items, or to `None` if it is unknown.
///
/// # Errors
/// The errors of [`from_wire`].
pub fn items_of(message: &v1::ItemStructure) -> Result<Option<Arc<ItemStructure>>, WireError> {
    let Some(names) = &message.names else { return Ok(None) };
    let names = Arc::new(from_wire(names)?);
    let disputed_by = message.disputed_by.as_ref().map(from_wire).transpose()?.map(Arc::new);
    Ok(Some(Arc::new(ItemStructure { names, is_signature: message.is_signature, disputed_by })))
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
