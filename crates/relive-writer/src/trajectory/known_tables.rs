//! The tables for which a writer has created items.

use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, ErrorKind, Result};
use relive_fleet::{Backend, TableSignature};
use relive_table::ItemStructure;
use relive_tensor::{DType, Nest, Shape};

use super::options::TrajectoryWriterOptions;
use crate::columns::Column;
use crate::links::other_names;

/// The tables for which a writer has created items, with their signatures if items are checked. There are only a few
/// tables, so a linear search is fastest.
#[derive(Debug)]
pub(crate) struct KnownTables {
    validate: bool,
    /// Whether items may match the signature step by step instead of as a whole.
    per_step: bool,
    /// Whether items must have the column names that their table stores.
    check_names: bool,
    /// The backend's [`tables_version`](Backend::tables_version) for which the following lists are valid.
    version: u64,
    tables: Vec<KnownTable>,
    /// The tables whose columns this writer has named.
    named: Vec<Arc<str>>,
    /// A pending request that checks whether items of this table may have this structure.
    unresolved: Option<(Arc<str>, Nest<()>)>,
}

/// A table for which a writer has created items.
#[derive(Debug, Clone)]
pub(crate) struct KnownTable {
    pub(crate) name: Arc<str>,
    pub(crate) signature: Option<Arc<TableSignature>>,
    /// The structure of all the table's items, if names are checked and the structure has been requested.
    pub(crate) structure: Option<Arc<ItemStructure>>,
    /// The number of step columns when windows of whole steps were last checked.
    pub(crate) checked_columns: usize,
    names: Names,
    per_step: bool,
}

/// How the names of a table's items are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The names are checked against the structure of the table's items.
    Checked,
    /// The names are sent to the table, and its answer is ignored.
    Sent,
    /// The server does not store names.
    Unsupported,
}

impl KnownTables {
    pub(crate) fn new(options: &TrajectoryWriterOptions) -> KnownTables {
        let TrajectoryWriterOptions { validate_items: validate, signature_per_step: per_step, .. } = *options;
        let check_names = validate && options.check_names;
        let (tables, named) = (Vec::new(), Vec::new());
        KnownTables { validate, per_step, check_names, version: 0, tables, named, unresolved: None }
    }

    /// Forgets all tables if one may have been dropped, because a later table with its name may have other columns.
    fn renew(&mut self, backend: &Backend) {
        if !self.is_current(backend) {
            self.version = backend.tables_version();
            self.tables.clear();
            self.named.clear();
        }
    }

    fn is_current(&self, backend: &Backend) -> bool {
        self.version == backend.tables_version()
    }

    /// Returns the table `name`, or `None` if its signature has to be requested first.
    pub(crate) fn get(&mut self, name: &str, backend: &Backend) -> Result<Option<&KnownTable>> {
        self.renew(backend);
        if let Some(position) = self.tables.iter().position(|known| *known.name == *name) {
            return Ok(self.tables.get(position));
        }
        let signature = match self.validate {
            false => None,
            true => match backend.known_signature(name)? {
                Some(known) => Some(known),
                None => return Ok(None),
            },
        };
        self.add(name, signature);
        Ok(self.tables.last())
    }

    fn add(&mut self, name: &str, signature: Option<Arc<TableSignature>>) {
        let names = if self.check_names { Names::Checked } else { Names::Sent };
        let structure =
            signature.as_ref().filter(|_| self.check_names).and_then(|signature| signature.structure());
        self.tables.push(KnownTable {
            name: Arc::from(name),
            structure: structure.cloned(),
            signature,
            checked_columns: 0,
            names,
            per_step: self.per_step,
        });
    }

    /// Makes the next windows of whole steps be checked again, because the columns have changed.
    pub(crate) fn forget_columns(&mut self) {
        self.tables.iter_mut().for_each(|known| known.checked_columns = 0);
    }

    /// Returns the table `name`, if it is known and has not been dropped.
    pub(crate) fn find(&self, name: &str, backend: &Backend) -> Option<&KnownTable> {
        self.tables.iter().find(|known| *known.name == *name).filter(|_| self.is_current(backend))
    }

    /// Returns whether this writer has named the columns of the table `name`.
    pub(crate) fn has_named(&self, name: &str, backend: &Backend) -> bool {
        self.named.iter().any(|named| **named == *name) && self.is_current(backend)
    }

    /// Records that this writer has named the columns of the table `name`.
    pub(crate) fn note_named(&mut self, name: &str, backend: &Backend) {
        self.renew(backend);
        self.named.push(Arc::from(name));
    }

    /// Returns the table `name`, if it is known.
    pub(crate) fn known(&mut self, name: &str) -> Option<&mut KnownTable> {
        self.tables.iter_mut().find(|known| *known.name == *name)
    }

    /// Checks whether items of the table `name` may have `structure`. Returns `None` if this requires a request to the
    /// table's server. If names are not checked, the caller sends them to the table.
    pub(crate) fn check_names<T>(
        &mut self,
        name: &str,
        structure: &Nest<T>,
        backend: &Backend,
    ) -> Result<Option<NamesCheck>> {
        if self.get(name, backend)?.is_none() {
            return Ok(None);
        }
        let Some(known) = self.known(name) else { return Ok(None) };
        match known.names {
            Names::Unsupported => return Ok(Some(NamesCheck::Fits)),
            Names::Sent => return Ok(Some(NamesCheck::Unsent)),
            Names::Checked => {}
        }
        if known.structure.is_none() {
            let names = structure.map(|_| ());
            match backend.agree_at_once(name, &names) {
                Ok(Some(agreed)) => known.structure = Some(agreed),
                Ok(None) => {
                    self.unresolved = Some((Arc::from(name), names));
                    return Ok(None);
                }
                Err(error) => known.note_naming_error(error)?,
            }
        }
        match &known.structure {
            Some(kept) => {
                kept.check(name, structure).map_err(|why| other_names(&why)).map(|()| Some(NamesCheck::Fits))
            }
            None => Ok(Some(NamesCheck::Fits)),
        }
    }

    /// Requests the signature of the table `name`, if it is needed.
    pub(crate) async fn learn(&mut self, name: &str, backend: &Backend, timeout: Duration) -> Result<()> {
        if self.get(name, backend)?.is_none() {
            let signature = Some(backend.signature(name, timeout).await?);
            self.add(name, signature);
        }
        let Some((_, names)) = self.unresolved.take().filter(|(table, _)| **table == *name) else {
            return Ok(());
        };
        let agreed = backend.with_timeout(timeout).agree_on_columns(name, &names).await;
        let Some(known) = self.known(name) else { return Ok(()) };
        match agreed {
            Ok(None) => known.names = Names::Unsupported,
            Ok(agreed) => known.structure = agreed,
            Err(error) => known.note_naming_error(error)?,
        }
        Ok(())
    }
}

/// The result of checking the names of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamesCheck {
    /// The names match the table's names, or the table has no names.
    Fits,
    /// The names are not checked and may be sent to the table.
    Unsent,
}

impl KnownTable {
    /// Returns whether the table's server does not store names.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.names == Names::Unsupported
    }

    /// Continues without names if there are too many or if they are nested too deeply, and returns any other error.
    fn note_naming_error(&mut self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::InvalidArgument {
            return Err(error);
        }
        tracing::debug!(table = %self.name, %error, "could not name the columns of a table");
        self.names = Names::Unsupported;
        Ok(())
    }

    /// Checks that items with the given columns match the table.
    pub(crate) fn check(&self, columns: &[Column]) -> Result<()> {
        let steps = || Ok(columns.iter().map(|column| (column.dtype(), column.cell_shape().clone())));
        self.check_layout(columns.iter().map(|column| (column.dtype(), column.shape())), steps)
    }

    /// Checks that items whose columns have the types and shapes in `columns` match the table. `steps` returns the types
    /// and shapes of single steps of the columns, which may be in the signature instead.
    pub(crate) fn check_layout<S: ExactSizeIterator<Item = (DType, Shape)>>(
        &self,
        columns: impl ExactSizeIterator<Item = (DType, Shape)>,
        steps: impl FnOnce() -> Result<S>,
    ) -> Result<()> {
        let Some(signature) = &self.signature else { return Ok(()) };
        match signature.check_layout(columns) {
            Err(error) if self.per_step => signature.check_layout(steps()?).map_err(|_| error),
            checked => checked,
        }
    }
}
