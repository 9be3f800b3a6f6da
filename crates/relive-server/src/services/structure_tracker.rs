//! The structures of items that the reader of a stream has already received.

use std::sync::Arc;

use relive_engine::TableHandle;
use relive_table::ItemStructure;

/// The last structure of items that the reader of a stream received.
#[derive(Debug, Default)]
pub(crate) struct StructureTracker(Option<Arc<ItemStructure>>);

impl StructureTracker {
    /// Returns the structure of `table`'s items, if it is known, or `None` if the reader has already received it.
    pub(crate) fn take_update(&mut self, table: &TableHandle) -> Option<Option<Arc<ItemStructure>>> {
        let structure = table.structure();
        let is_known = match (&self.0, &structure) {
            // The structures of two tables count as different even if their content is the same.
            (Some(sent), Some(structure)) => Arc::ptr_eq(sent, structure),
            (sent, structure) => sent.is_none() && structure.is_none(),
        };
        if is_known {
            return None;
        }
        self.0.clone_from(&structure);
        Some(structure)
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::TableConfig;
    use relive_tensor::Nest;

    use super::*;

    #[test]
    fn a_reader_gets_the_column_names_once_and_after_each_change() {
        let engine = Engine::builder().table(TableConfig::new("t")).build().expect("it is in range");
        let (table, mut tracker) = (engine.table("t").expect("it was made"), StructureTracker::default());
        assert!(tracker.take_update(&table).is_none(), "no names are known, so there is nothing to send");
        table.name_columns(Nest::dict([("a", ())])).expect("it is open");
        assert!(
            tracker.take_update(&table).flatten().is_some_and(|structure| structure.disputed_by.is_none())
        );
        assert!(tracker.take_update(&table).is_none(), "the reader already has these names");
        table.name_columns(Nest::dict([("b", ())])).expect("it is open");
        assert!(
            tracker.take_update(&table).flatten().is_some_and(|structure| structure.disputed_by.is_some())
        );
    }
}
