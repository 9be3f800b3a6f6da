//! The tables that a writer has made items for.

use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Error, ErrorKind, Result};
use relive_fleet::{Backend, TableSignature};
use relive_table::ItemStructure;
use relive_tensor::{DType, Nest, Shape};

use super::options::TrajectoryWriterOptions;
use crate::columns::Column;
use crate::links::other_names;

/// The tables that a writer has made items for, with their signatures if items are checked. Few, so that looking
/// through them is the fastest way to find one.
#[derive(Debug)]
pub(crate) struct KnownTables {
    validate: bool,
    /// Whether items may also fit the signature step by step.
    per_step: bool,
    /// Whether items must have the names that their table keeps.
    check_names: bool,
    tables: Vec<KnownTable>,
    /// What is to be asked of a table: whether its items may look like this.
    to_ask: Option<(Arc<str>, Nest<()>)>,
}

/// A table that a writer has made items for.
#[derive(Debug, Clone)]
pub(crate) struct KnownTable {
    pub(crate) name: Arc<str>,
    pub(crate) signature: Option<Arc<TableSignature>>,
    /// What all its items look like, if names are checked and somebody has asked.
    pub(crate) structure: Option<Arc<ItemStructure>>,
    /// How many columns steps had when whole windows of them were checked last.
    pub(crate) checked_columns: usize,
    names: Names,
    per_step: bool,
}

/// What becomes of the names of a table's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Checked,
    /// They are sent to the table, and its answer does not matter.
    Told,
    /// The server keeps none.
    Unkept,
}

impl KnownTables {
    pub(crate) fn new(options: &TrajectoryWriterOptions) -> KnownTables {
        let TrajectoryWriterOptions { validate_items: validate, signature_per_step: per_step, .. } = *options;
        let check_names = validate && options.check_names;
        KnownTables { validate, per_step, check_names, tables: Vec::new(), to_ask: None }
    }

    /// The table `name`; none if its signature has to be asked for first.
    pub(crate) fn get(&mut self, name: &str, backend: &Backend) -> Result<Option<&KnownTable>> {
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
        let names = if self.check_names { Names::Checked } else { Names::Told };
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

    /// The table `name`, if it is known.
    pub(crate) fn find(&self, name: &str) -> Option<&KnownTable> {
        self.tables.iter().find(|known| *known.name == *name)
    }

    /// The table `name`, if it is known.
    pub(crate) fn known(&mut self, name: &str) -> Option<&mut KnownTable> {
        self.tables.iter_mut().find(|known| *known.name == *name)
    }

    /// Whether items of the table `name` may look like `structure`; none if its server has to be asked first. The
    /// caller sends the names to a table whose items are not checked.
    pub(crate) fn check_names<T>(
        &mut self,
        name: &str,
        structure: &Nest<T>,
        backend: &Backend,
    ) -> Result<Option<Checked>> {
        if self.get(name, backend)?.is_none() {
            return Ok(None);
        }
        let Some(known) = self.known(name) else { return Ok(None) };
        match known.names {
            Names::Unkept => return Ok(Some(Checked::Fits)),
            Names::Told => return Ok(Some(Checked::ToBeTold)),
            Names::Checked => {}
        }
        if known.structure.is_none() {
            let names = structure.map(|_| ());
            match backend.agree_at_once(name, &names) {
                Ok(Some(agreed)) => known.structure = Some(agreed),
                Ok(None) => {
                    self.to_ask = Some((Arc::from(name), names));
                    return Ok(None);
                }
                Err(error) => known.cannot_be_named(error)?,
            }
        }
        match &known.structure {
            Some(kept) => {
                kept.check(name, structure).map_err(|why| other_names(&why)).map(|()| Some(Checked::Fits))
            }
            None => Ok(Some(Checked::Fits)),
        }
    }

    /// Asks for the signature of the table `name`, if it is needed.
    pub(crate) async fn learn(&mut self, name: &str, backend: &Backend, timeout: Duration) -> Result<()> {
        if self.get(name, backend)?.is_none() {
            let signature = Some(backend.signature(name, timeout).await?);
            self.add(name, signature);
        }
        let Some((_, names)) = self.to_ask.take().filter(|(asked, _)| **asked == *name) else {
            return Ok(());
        };
        let agreed = backend.with_timeout(timeout).agree_on_columns(name, &names).await;
        let Some(known) = self.known(name) else { return Ok(()) };
        match agreed {
            Ok(None) => known.names = Names::Unkept,
            Ok(agreed) => known.structure = agreed,
            Err(error) => known.cannot_be_named(error)?,
        }
        Ok(())
    }
}

/// What comes of the names of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    /// They are those of its table, as far as that has any.
    Fits,
    /// They are not checked; the table may be told of them.
    ToBeTold,
}

impl KnownTable {
    /// Whether its server keeps no names.
    pub(crate) fn is_unkept(&self) -> bool {
        self.names == Names::Unkept
    }

    /// Goes on without names if they are too many, or too deep; any other error stands.
    fn cannot_be_named(&mut self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::InvalidArgument {
            return Err(error);
        }
        tracing::debug!(table = %self.name, %error, "the columns of a table were not named");
        self.names = Names::Unkept;
        Ok(())
    }

    /// Whether items with these columns belong into the table.
    pub(crate) fn check(&self, columns: &[Column]) -> Result<()> {
        let checked = self.check_layout(columns.iter().map(|column| (column.dtype(), column.shape())));
        match &self.signature {
            Some(signature) if checked.is_err() && self.per_step => {
                let steps = columns.iter().map(|column| (column.dtype(), column.cell_shape().clone()));
                signature.check_layout(steps).or(checked)
            }
            _ => checked,
        }
    }

    /// Whether items with columns of these types and shapes belong into the table.
    pub(crate) fn check_layout(&self, columns: impl ExactSizeIterator<Item = (DType, Shape)>) -> Result<()> {
        self.signature.as_ref().map_or(Ok(()), |signature| signature.check_layout(columns))
    }
}

/// The tables whose items this writer has described. Few, as with the tables that it knows.
#[derive(Debug, Default)]
pub(super) struct NamedTables(pub(super) Vec<Arc<str>>);
