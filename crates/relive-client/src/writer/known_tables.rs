//! The tables that a writer has made items for.

use std::sync::Arc;
use std::time::Duration;

use relive_tensor::{DType, Shape};

use super::options::TrajectoryWriterOptions;
use super::tables::TableSignature;
use crate::Result;
use crate::client::Client;
use crate::history::Column;

/// The tables that a writer has made items for, with their signatures if items are checked. Few, so that looking
/// through them is the fastest way to find one.
#[derive(Debug)]
pub(crate) struct KnownTables {
    validate: bool,
    /// Whether items may also fit the signature step by step.
    per_step: bool,
    tables: Vec<KnownTable>,
}

/// A table that a writer has made items for.
#[derive(Debug, Clone)]
pub(crate) struct KnownTable {
    pub(crate) name: Arc<str>,
    pub(crate) signature: Option<Arc<TableSignature>>,
    per_step: bool,
}

impl KnownTables {
    pub(crate) fn new(options: &TrajectoryWriterOptions) -> KnownTables {
        let TrajectoryWriterOptions { validate_items: validate, signature_per_step: per_step, .. } = *options;
        KnownTables { validate, per_step, tables: Vec::new() }
    }

    /// The table `name`; none if its signature has to be asked for first.
    pub(crate) fn get(&mut self, name: &str, client: &Client) -> Result<Option<&KnownTable>> {
        if let Some(position) = self.tables.iter().position(|known| *known.name == *name) {
            return Ok(self.tables.get(position));
        }
        let signature = match self.validate {
            false => None,
            true => match client.known_signature(name)? {
                Some(known) => Some(known),
                None => return Ok(None),
            },
        };
        self.tables.push(KnownTable { name: Arc::from(name), signature, per_step: self.per_step });
        Ok(self.tables.last())
    }

    /// Asks for the signature of the table `name`, if it is needed.
    pub(crate) async fn learn(&mut self, name: &str, client: &Client, timeout: Duration) -> Result<()> {
        if self.get(name, client)?.is_none() {
            let signature = Some(client.table_signature(name, timeout).await?);
            self.tables.push(KnownTable { name: Arc::from(name), signature, per_step: self.per_step });
        }
        Ok(())
    }
}

impl KnownTable {
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
