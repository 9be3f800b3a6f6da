//! The tables of an engine, which may be added and dropped while it runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::handle::TableHandle;
use crate::error::{BuildError, EngineError, shortened};
use crate::limits::MAX_TABLES;
use crate::table::{Peers, TableCore};

/// The maximum number of names that an error lists. The number is small because the text is sent in a header.
const MAX_TABLE_NAMES_IN_ERROR: usize = 20;

/// The tables, by name and in the order in which they were added. No table is locked while the catalogue is locked.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    listed: RwLock<Listed>,
    /// The number of times that the list has changed. It changes while the list is locked.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Listed {
    by_name: HashMap<String, TableHandle>,
    order: Arc<[TableHandle]>,
    is_closed: bool,
}

impl Catalogue {
    pub(crate) fn new(tables: Vec<TableHandle>) -> Result<Arc<Self>, BuildError> {
        let mut by_name = HashMap::with_capacity(tables.len());
        for table in &tables {
            if by_name.insert(table.name().to_owned(), table.clone()).is_some() {
                return Err(BuildError::DuplicateName { name: table.name().to_owned() });
            }
        }
        let listed = Listed { by_name, order: tables.into(), is_closed: false };
        let catalogue = Arc::new(Self { listed: RwLock::new(listed), version: AtomicU64::new(0) });
        catalogue.all().iter().for_each(|table| catalogue.connect_peers(table));
        Ok(catalogue)
    }

    /// Gives a table access to the other tables. Must be called exactly once for each table.
    fn connect_peers(self: &Arc<Self>, table: &TableHandle) {
        for core in table.cores() {
            let peers: Weak<Self> = Arc::downgrade(self);
            let _ = core.shared.peers.set(peers);
        }
    }

    /// Returns the cores of the current tables.
    pub(crate) fn cores(&self) -> Vec<TableCore> {
        self.all().iter().flat_map(TableHandle::cores).cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<TableHandle> {
        self.listed.read().by_name.get(name).cloned()
    }

    /// The current tables.
    pub(crate) fn all(&self) -> Arc<[TableHandle]> {
        Arc::clone(&self.listed.read().order)
    }

    /// Returns the number of times that this list has changed. A list that is read afterwards is at least as new.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Closes the list, so that no more tables can be added. Returns the existing ones.
    pub(crate) fn close(&self) -> Arc<[TableHandle]> {
        let mut listed = self.listed.write();
        listed.is_closed = true;
        Arc::clone(&listed.order)
    }

    pub(crate) fn add(self: &Arc<Self>, table: TableHandle) -> Result<(), EngineError> {
        let mut listed = self.listed.write();
        let name = table.name().to_owned();
        if listed.is_closed {
            return Err(EngineError::Closed { table: name });
        }
        if listed.by_name.contains_key(&name) {
            return Err(EngineError::TableExists { name: shortened(&name) });
        }
        if listed.order.len() >= MAX_TABLES {
            return Err(EngineError::TooManyTables { limit: MAX_TABLES });
        }
        self.connect_peers(&table);
        listed.by_name.insert(name, table.clone());
        listed.order = listed.order.iter().cloned().chain([table]).collect();
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<TableHandle, EngineError> {
        let mut listed = self.listed.write();
        if !listed.by_name.contains_key(name) {
            drop(listed);
            return Err(self.unknown(name));
        }
        if listed.order.len() == 1 {
            return Err(EngineError::LastTable { name: shortened(name) });
        }
        let removed = listed.by_name.remove(name);
        listed.order = listed.order.iter().filter(|table| table.name() != name).cloned().collect();
        self.version.fetch_add(1, Ordering::Release);
        drop(listed);
        removed.ok_or_else(|| self.unknown(name))
    }

    /// Returns the error for a name that no table has.
    pub(crate) fn unknown(&self, name: &str) -> EngineError {
        let tables = self.all();
        let names: Vec<_> =
            tables.iter().take(MAX_TABLE_NAMES_IN_ERROR).map(|table| shortened(table.name())).collect();
        let known = match tables.len().saturating_sub(names.len()) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        };
        EngineError::UnknownTable { name: shortened(name), known }
    }
}

impl Peers for Catalogue {
    fn core_of(&self, name: &str, key: u64) -> Option<TableCore> {
        self.get(name).map(|table| table.core_of(key).clone())
    }

    fn serve_waiters(&self, name: &str) {
        if let Some(table) = self.get(name) {
            table.serve_waiters();
        }
    }
}
