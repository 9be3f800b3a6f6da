//! What the reader of a stream already knows about a table's columns.

use std::sync::Arc;

use relive_engine::TableHandle;
use relive_table::ItemStructure;

/// The last structure of items that the reader of a stream received.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<Arc<ItemStructure>>);

impl Told {
    /// The structure of `table`'s items, if it is known; `None` if the reader has already received it.
    pub(crate) fn news(&mut self, table: &TableHandle) -> Option<Option<Arc<ItemStructure>>> {
        let structure = table.structure();
        let is_known = match (&self.0, &structure) {
            // Structures of two tables are distinct, even with the same content.
            (Some(told), Some(structure)) => Arc::ptr_eq(told, structure),
            (told, structure) => told.is_none() && structure.is_none(),
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
    fn a_reader_is_told_once_and_again_when_it_changes() {
        let engine = Engine::builder().table(TableConfig::new("t")).build().expect("it is in range");
        let (table, mut told) = (engine.table("t").expect("it was made"), Told::default());
        assert!(told.news(&table).is_none(), "nothing is known, and the reader knows nothing");
        table.name_columns(Nest::dict([("a", ())])).expect("it is open");
        assert!(told.news(&table).flatten().is_some_and(|structure| structure.disputed_by.is_none()));
        assert!(told.news(&table).is_none(), "it has been told");
        table.name_columns(Nest::dict([("b", ())])).expect("it is open");
        assert!(told.news(&table).flatten().is_some_and(|structure| structure.disputed_by.is_some()));
    }
}
