//! The signatures of tables, used to check items before they are sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use relive_connection::{Error, ErrorKind, Result};
use relive_table::{ItemStructure, TableConfig, TableInfo};
use relive_tensor::{DType, Shape, TensorSpec};

/// The columns that items of a table must have, with their paths.
#[derive(Debug)]
pub struct TableSignature {
    config: Arc<TableConfig>,
    columns: Option<Vec<(String, TensorSpec)>>,
    structure: Option<Arc<ItemStructure>>,
}

impl TableSignature {
    fn new(config: &Arc<TableConfig>) -> TableSignature {
        let described = config.signature.as_deref().map(|signature| {
            let leaves = signature.flatten_with_paths().into_iter();
            leaves.map(|(path, spec)| (path.to_string(), spec.clone())).collect()
        });
        let named = config.signature.as_deref().filter(|signature| !signature.is_empty());
        let structure = named.map(|signature| Arc::new(ItemStructure::of_signature(signature.map(|_| ()))));
        TableSignature { config: Arc::clone(config), columns: described, structure }
    }

    /// Returns the structure of items, if the signature defines one.
    pub fn structure(&self) -> Option<&Arc<ItemStructure>> {
        self.structure.as_ref()
    }

    /// Returns whether the table defines the columns of its items.
    pub fn has_columns(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| !columns.is_empty())
    }

    /// Checks that items whose columns have the given types and shapes match the table.
    ///
    /// # Errors
    /// `InvalidArgument`; the message contains the columns that the signature requires.
    pub fn check_layout(&self, columns: impl ExactSizeIterator<Item = (DType, Shape)>) -> Result<()> {
        let Some(wanted) = &self.columns else { return Ok(()) };
        if wanted.len() != columns.len() {
            let paths: Vec<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
            return Err(self.error(&format!(
                "the item has {} columns, but the table's signature has {}: {paths:?}",
                columns.len(),
                wanted.len()
            )));
        }
        for (number, ((dtype, shape), (path, spec))) in columns.zip(wanted).enumerate() {
            if !spec.accepts(dtype, &shape) {
                return Err(self.error(&format!(
                    "column {number} ({path}) is {} {}, but the table's signature requires {}",
                    dtype.numpy_name(),
                    shape.display_numpy(),
                    spec.display_numpy()
                )));
            }
        }
        Ok(())
    }

    fn is_of(&self, config: &TableConfig) -> bool {
        self.config.signature == config.signature
    }

    fn error(&self, text: &str) -> Error {
        Error::invalid(format!("table {:?}: {text}", self.config.name))
    }
}

/// The signatures that a client has received, shared by its writers.
#[derive(Debug, Default)]
pub(crate) struct SignatureCache {
    tables: Mutex<HashMap<String, Arc<TableSignature>>>,
    /// Counts the known signatures that were forgotten or replaced by others.
    version: AtomicU64,
}

impl SignatureCache {
    pub(crate) fn get(&self, table: &str) -> Option<Arc<TableSignature>> {
        self.tables.lock().get(table).cloned()
    }

    /// Returns a number that changes whenever a signature is forgotten or replaced by another one.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the signatures with the signatures of the server's tables.
    pub(crate) fn replace(&self, tables: &[TableInfo]) {
        let fresh =
            tables.iter().map(|info| (info.config.name.clone(), Arc::new(TableSignature::new(&info.config))));
        let fresh: HashMap<String, Arc<TableSignature>> = fresh.collect();
        let is_same = |(name, known): (&String, &Arc<TableSignature>)| {
            // A server that has the table may not have answered.
            fresh.get(name).is_none_or(|new| known.is_of(&new.config))
        };
        let mut known = self.tables.lock();
        if !known.iter().all(is_same) {
            self.version.fetch_add(1, Ordering::Release);
        }
        *known = fresh;
    }

    /// Returns the signature of a table with these rules.
    pub(crate) fn of(&self, config: &Arc<TableConfig>) -> Arc<TableSignature> {
        let known = self.get(&config.name).filter(|known| Arc::ptr_eq(&known.config, config));
        known.unwrap_or_else(|| {
            let signature = Arc::new(TableSignature::new(config));
            self.tables.lock().insert(config.name.clone(), Arc::clone(&signature));
            signature
        })
    }

    /// Forgets the signature of a table that was dropped.
    pub(crate) fn forget(&self, table: &str) {
        let mut known = self.tables.lock();
        known.remove(table);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the error for a table that the server does not have.
    pub(crate) fn unknown(&self, table: &str) -> Error {
        let mut known: Vec<String> = self.tables.lock().keys().cloned().collect();
        known.sort_unstable();
        Error::new(
            ErrorKind::NotFound,
            format!("the server has no table {table:?}; its tables are {known:?}"),
        )
    }
}
