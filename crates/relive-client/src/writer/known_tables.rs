//! The tables that a writer has made items for.

use std::sync::Arc;
use std::time::Duration;

use super::tables::TableSignature;
use crate::Result;
use crate::client::Client;

/// The tables that a writer has made items for, with their signatures if items are checked. Few, so that looking
/// through them is the fastest way to find one.
#[derive(Debug)]
pub(crate) struct KnownTables {
    validate: bool,
    tables: Vec<KnownTable>,
}

/// A table that a writer has made items for.
#[derive(Debug, Clone)]
pub(crate) struct KnownTable {
    pub(crate) name: Arc<str>,
    pub(crate) signature: Option<Arc<TableSignature>>,
}

impl KnownTables {
    pub(crate) fn new(validate: bool) -> KnownTables {
        KnownTables { validate, tables: Vec::new() }
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
        self.tables.push(KnownTable { name: Arc::from(name), signature });
        Ok(self.tables.last())
    }

    /// Asks for the signature of the table `name`, if it is needed.
    pub(crate) async fn learn(&mut self, name: &str, client: &Client, timeout: Duration) -> Result<()> {
        if self.get(name, client)?.is_none() {
            let signature = Some(client.table_signature(name, timeout).await?);
            self.tables.push(KnownTable { name: Arc::from(name), signature });
        }
        Ok(())
    }
}
