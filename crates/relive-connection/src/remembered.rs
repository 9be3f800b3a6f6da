//! Stores the state of a server's tables, for comparison with their state after the server was unreachable.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::report::{ServerInfo, StateId};

/// The last known state of a server's tables.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<ServerTables>);

#[derive(Debug, Default)]
struct ServerTables {
    /// The id of the server at the last query.
    id: Option<StateId>,
    /// A lower bound on the number of inserts into each table.
    inserts: HashMap<String, i64>,
    /// Whether a task is waiting for the server to answer again.
    is_watching: bool,
}

impl Remembered {
    /// Records the server's current state. Returns the name, current inserts and previous inserts of each table that
    /// has fewer inserts than before.
    pub(crate) fn update(&self, info: &ServerInfo) -> Vec<(String, i64, i64)> {
        let mut state = self.0.lock();
        let may_be_new = state.is_watching || state.id.is_some_and(|id| id != info.state_id);
        state.id = Some(info.state_id);
        let mut lost = Vec::new();
        for table in &info.tables {
            let now = table.inserts;
            let Some(before) = state.inserts.insert(table.config.name.clone(), now) else { continue };
            if now < before && may_be_new {
                lost.push((table.config.name.clone(), now, before));
            }
        }
        lost
    }

    /// Records a lower bound on the number of inserts into `table`.
    pub(crate) fn at_least(&self, table: &str, inserts: i64) {
        let mut state = self.0.lock();
        let known = state.inserts.entry(table.to_owned()).or_default();
        *known = inserts.max(*known);
    }

    /// Records that a table was emptied on purpose.
    pub(crate) fn forget(&self, table: &str) {
        self.0.lock().inserts.remove(table);
    }

    /// Returns whether the caller should wait for the server to return because no other task is doing so. If so, the
    /// caller must call [`end_watch`](Self::end_watch) later.
    pub(crate) fn begin_watch(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().is_watching, true)
    }

    pub(crate) fn end_watch(&self) {
        self.0.lock().is_watching = false;
    }
}

#[cfg(test)]
mod tests {
    use relive_table::{Table, TableConfig, TableInfo};

    use super::*;

    fn info(state: u64, inserts: i64) -> ServerInfo {
        let table = Table::new(TableConfig::new("t"), Vec::new()).unwrap();
        let tables = vec![TableInfo { inserts, ..table.info() }];
        ServerInfo::new(StateId { high: 0, low: state }, tables)
    }

    #[test]
    fn a_new_state_id_with_fewer_inserts_means_lost_items() {
        let remembered = Remembered::default();
        assert_eq!(remembered.update(&info(1, 5)), []);
        assert_eq!(remembered.update(&info(1, 3)), [], "the table was reset");
        assert_eq!(remembered.update(&info(2, 3)), [], "it was restarted with all of its items");
        let lost = [("t".to_owned(), 0, 3)];
        assert_eq!(remembered.update(&info(3, 0)), lost);
        assert_eq!(remembered.update(&info(3, 0)), [], "it is reported once");
    }

    #[test]
    fn insert_counts_of_writers_are_remembered_without_prior_queries() {
        let remembered = Remembered::default();
        remembered.at_least("t", 4);
        assert!(remembered.begin_watch());
        assert_eq!(remembered.update(&info(1, 1)), [("t".to_owned(), 1, 4)]);
        remembered.at_least("t", 4);
        remembered.forget("t");
        assert_eq!(remembered.update(&info(1, 1)), []);
    }
}
