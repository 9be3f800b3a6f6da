//! The names of a batch's columns.

use std::sync::Arc;

use relive_connection::{Error, Result};
use relive_table::{ItemStructure, shown};

use crate::samples::Sample;

/// Returns the structure of the items of all `samples`, if it came with the samples. If servers report different
/// structures, the structure is disputed.
pub(super) fn of_all(samples: &[Sample]) -> Option<Arc<ItemStructure>> {
    let mut known = samples.iter().filter_map(Sample::structure);
    let first = known.next()?;
    let other = known.find(|other| !Arc::ptr_eq(first, other) && !first.fits(&other.names));
    Some(match other {
        None => Arc::clone(first),
        Some(other) => {
            let disputed_by = Some(Arc::clone(&other.names));
            Arc::new(ItemStructure { disputed_by, ..ItemStructure::clone(first) })
        }
    })
}

/// Returns an error with the reason if a batch's columns have no valid names.
pub(super) fn check(structure: &ItemStructure, table: &str, columns: usize) -> Result<()> {
    let ItemStructure { names, is_signature, disputed_by } = structure;
    let advice = "give the table a signature, or use a separate table for each kind of item; single samples \
                  are returned as lists of columns";
    let who = if *is_signature { "its signature says" } else { "its first writer wrote" };
    if let Some(other) = disputed_by {
        return Err(Error::invalid(format!(
            "the columns of table {table:?} have conflicting names: {who} {}, but another writer wrote {}: {advice}",
            shown(names),
            shown(other)
        )));
    }
    if names.len() != columns {
        return Err(Error::invalid(format!(
            "the items of this batch of table {table:?} have {columns} columns, but {who} {}, with {} columns: {advice}",
            shown(names),
            names.len()
        )));
    }
    Ok(())
}
