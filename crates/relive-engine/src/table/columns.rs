//! The structure of a table's items, if the signature or a writer has declared it.
//!
//! An item is a list of columns. The structure around them, in particular their names, is stored once per table.

use std::sync::Arc;

use relive_table::{ItemStructure, TableConfig};
use relive_tensor::Nest;

use crate::error::EngineError;
use crate::limits::{MAX_NAME_BYTES, MAX_NAMED_COLUMNS, MAX_NAMED_DEPTH, MAX_NAMED_PLACES};
use crate::sync::Mutex;

/// The structure of the signature, or the first one that a writer proposed.
pub(crate) struct Columns {
    kept: Mutex<Option<Arc<ItemStructure>>>,
}

impl Columns {
    /// Returns the structure of an empty table. As in dm-reverb, a signature without leaves has no structure.
    pub(crate) fn of(config: &TableConfig) -> Self {
        let signature = config.signature.as_deref().filter(|signature| !signature.is_empty());
        let kept = signature.map(|signature| Arc::new(ItemStructure::of_signature(signature.map(|_| ()))));
        Self { kept: Mutex::new(kept) }
    }

    /// See [`TableHandle::name_columns`](crate::TableHandle::name_columns).
    pub(crate) fn propose(&self, table: &str, structure: Nest<()>) -> Result<bool, EngineError> {
        let proposed = checked(table, structure)?;
        let mut kept = self.kept.lock();
        let Some(first) = kept.as_ref() else {
            *kept = Some(Arc::new(proposed));
            return Ok(true);
        };
        if first.fits(&proposed.names) {
            return Ok(first.disputed_by.is_none());
        }
        let is_alike = first.names.len() == proposed.names.len();
        if is_alike && !first.is_signature && first.disputed_by.is_none() {
            let disputed = ItemStructure { disputed_by: Some(proposed.names), ..ItemStructure::clone(first) };
            *kept = Some(Arc::new(disputed));
        }
        Ok(false)
    }

    /// See [`TableHandle::agree_on_columns`](crate::TableHandle::agree_on_columns).
    pub(crate) fn agree(&self, table: &str, structure: Nest<()>) -> Result<Arc<ItemStructure>, EngineError> {
        let proposed = checked(table, structure)?;
        Ok(Arc::clone(self.kept.lock().get_or_insert_with(|| Arc::new(proposed))))
    }

    /// See [`TableHandle::structure`](crate::TableHandle::structure).
    pub(crate) fn structure(&self) -> Option<Arc<ItemStructure>> {
        self.kept.lock().clone()
    }

    /// See [`TableHandle::columns`](crate::TableHandle::columns).
    pub(crate) fn names(&self) -> Option<Arc<Nest<()>>> {
        self.structure().filter(|kept| kept.disputed_by.is_none()).map(|kept| Arc::clone(&kept.names))
    }

    /// Adopts the checkpoint's structure, unless a signature determines it.
    pub(crate) fn restore(&self, stored: Option<Arc<ItemStructure>>) {
        let mut kept = self.kept.lock();
        if kept.is_none() {
            *kept = stored;
        }
    }
}

fn checked(table: &str, structure: Nest<()>) -> Result<ItemStructure, EngineError> {
    check(&structure).map_err(|reason| EngineError::Columns { table: table.to_owned(), reason })?;
    Ok(ItemStructure::of_writer(structure))
}

/// Returns an error if the structure exceeds any limit.
fn check(structure: &Nest<()>) -> Result<(), String> {
    let mut size = Size::default();
    size.add(structure, 0)?;
    match size.columns {
        0 => Err("it has no columns".to_owned()),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct Size {
    columns: usize,
    places: usize,
    name_bytes: usize,
}

impl Size {
    fn add(&mut self, nest: &Nest<()>, depth: usize) -> Result<(), String> {
        if depth > MAX_NAMED_DEPTH {
            return Err(format!("it is nested deeper than {MAX_NAMED_DEPTH} levels"));
        }
        within(&mut self.places, 1, MAX_NAMED_PLACES, "containers and columns")?;
        match nest {
            Nest::Leaf(()) => within(&mut self.columns, 1, MAX_NAMED_COLUMNS, "columns"),
            Nest::None => Ok(()),
            Nest::List(parts) | Nest::Tuple(parts) => {
                parts.iter().try_for_each(|part| self.add(part, depth + 1))
            }
            Nest::Dict(fields) => fields.iter().try_for_each(|(name, part)| self.field(name, part, depth)),
            Nest::NamedTuple { name, fields } => {
                self.name(name)?;
                fields.iter().try_for_each(|(name, part)| self.field(name, part, depth))
            }
        }
    }

    fn field(&mut self, name: &str, part: &Nest<()>, depth: usize) -> Result<(), String> {
        self.name(name)?;
        self.add(part, depth + 1)
    }

    fn name(&mut self, name: &str) -> Result<(), String> {
        within(&mut self.name_bytes, name.len(), MAX_NAME_BYTES, "bytes of names")
    }
}

fn within(sum: &mut usize, more: usize, limit: usize, what: &str) -> Result<(), String> {
    *sum = sum.saturating_add(more);
    if *sum > limit { Err(format!("it has more than {limit} {what}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(columns: usize) -> Nest<()> {
        Nest::List(vec![Nest::Leaf(()); columns])
    }

    fn nested(levels: usize) -> Nest<()> {
        (0..levels).fold(Nest::Leaf(()), |inner, _| Nest::Tuple(vec![inner]))
    }

    fn named(bytes: usize) -> Nest<()> {
        Nest::dict([("x".repeat(bytes), ())])
    }

    #[test]
    fn each_limit_is_the_last_accepted_value() {
        let empty_lists = |count: usize| {
            Nest::Tuple(std::iter::once(Nest::Leaf(())).chain(vec![Nest::List(Vec::new()); count]).collect())
        };
        for (good, bad, why) in [
            (flat(MAX_NAMED_COLUMNS), flat(MAX_NAMED_COLUMNS + 1), "more than 4096 columns"),
            (nested(MAX_NAMED_DEPTH), nested(MAX_NAMED_DEPTH + 1), "deeper than 32"),
            (named(MAX_NAME_BYTES), named(MAX_NAME_BYTES + 1), "bytes of names"),
            (empty_lists(MAX_NAMED_PLACES - 2), empty_lists(MAX_NAMED_PLACES - 1), "containers and columns"),
            (flat(1), flat(0), "no columns"),
            (flat(1), Nest::None, "no columns"),
        ] {
            assert_eq!(check(&good), Ok(()));
            let error = check(&bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_name_of_a_tuple_counts_toward_the_limit() {
        let fields = vec![("a".to_owned(), Nest::Leaf(()))];
        let tuple = |bytes| Nest::NamedTuple { name: "x".repeat(bytes), fields: fields.clone() };
        assert_eq!(check(&tuple(MAX_NAME_BYTES - 1)), Ok(()));
        assert!(check(&tuple(MAX_NAME_BYTES)).is_err());
    }
}
