//! Servers that come back without what they had.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::connect::Shared;
use super::{Client, Connection, ServerInfo, StateId};

/// How long one question for a server's tables takes at most, while it is away.
const ONE_LOOK: Duration = Duration::from_secs(1);

/// How many answers are looked at.
const LOOKS: u32 = 2;

/// What a client remembers of its server's tables.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The server's, when it was last asked.
    id: Option<StateId>,
    /// Inserts that each table has had at least.
    inserts: HashMap<String, i64>,
    /// Somebody waits for the server to be back.
    is_watching: bool,
}

impl Remembered {
    /// Takes over what the server says now. Tells, for each table that has had fewer inserts than it had before the server was away,
    /// the name, the inserts now, and those before.
    fn take_over(&self, info: &ServerInfo) -> Vec<(String, i64, i64)> {
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

    /// Takes note that `table` has had at least so many inserts.
    fn at_least(&self, table: &str, inserts: i64) {
        let mut state = self.0.lock();
        let known = state.inserts.entry(table.to_owned()).or_default();
        *known = inserts.max(*known);
    }

    /// Takes note that a table was emptied on purpose.
    pub(super) fn forget(&self, table: &str) {
        self.0.lock().inserts.remove(table);
    }
}

impl Client {
    /// Takes note of what the server says about its tables, and tells in the log if it has come back with less than it had.
    pub(super) fn remember(&self, info: &ServerInfo) {
        for (table, now, before) in self.shared.remembered.take_over(info) {
            tracing::warn!(
                target: "relive",
                "the server at {} has come back without items that it had: table {table:?} has had {now} inserts, and had at \
                 least {before} before; it was started without a checkpoint of them, or the table was reset",
                self.address()
            );
        }
    }

    /// Has somebody look at the server's tables as soon as it is there again, after a connection broke. `inserts` are those that
    /// tables have had at least, as far as the caller knows.
    pub(crate) fn watch_for_return(&self, inserts: impl IntoIterator<Item = (Arc<str>, u64)>) {
        if !matches!(self.connection(), Connection::Remote(_)) {
            return;
        }
        let remembered = &self.shared.remembered;
        inserts.into_iter().for_each(|(table, inserts)| {
            remembered.at_least(&table, i64::try_from(inserts).unwrap_or(i64::MAX));
        });
        let Ok(runtime) = Handle::try_current() else { return };
        if !std::mem::replace(&mut remembered.0.lock().is_watching, true) {
            runtime.spawn(watch(Arc::downgrade(&self.shared)));
        }
    }
}

/// Asks until the server answers or nobody has the client any more.
async fn watch(shared: Weak<Shared>) {
    let mut looks = LOOKS;
    while let Some(shared) = shared.upgrade() {
        let client = Client::of_shared(Arc::clone(&shared)).with_timeout(ONE_LOOK);
        match client.server_info().await {
            Err(error) if error.is_transient() => {}
            Ok(_) if looks > 1 => {
                // The first answer may be that of a server that is about to end.
                looks -= 1;
                drop((client, shared));
                sleep(ONE_LOOK).await;
            }
            Ok(_) | Err(_) => {
                shared.remembered.0.lock().is_watching = false;
                return;
            }
        }
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
    fn a_server_with_another_state_and_fewer_inserts_has_lost_items() {
        let remembered = Remembered::default();
        assert_eq!(remembered.take_over(&info(1, 5)), []);
        assert_eq!(remembered.take_over(&info(1, 3)), [], "the table was reset");
        assert_eq!(remembered.take_over(&info(2, 3)), [], "it was restarted with what it had");
        let lost = [("t".to_owned(), 0, 3)];
        assert_eq!(remembered.take_over(&info(3, 0)), lost);
        assert_eq!(remembered.take_over(&info(3, 0)), [], "it is told once");
    }

    #[test]
    fn what_writers_know_counts_although_nobody_has_asked_before() {
        let remembered = Remembered::default();
        remembered.at_least("t", 4);
        remembered.0.lock().is_watching = true;
        assert_eq!(remembered.take_over(&info(1, 1)), [("t".to_owned(), 1, 4)]);
        remembered.at_least("t", 4);
        remembered.forget("t");
        assert_eq!(remembered.take_over(&info(1, 1)), []);
    }
}
