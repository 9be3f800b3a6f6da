//! The plan of a run, once its options are checked.

use std::sync::Arc;

use relive_client::{Client, TableInfo};
use tokio::time::Instant;

use super::Options;
use super::live::Live;
use super::payload::Payload;
use crate::failure::{Failure, Result};

/// The data that all clients of a run share.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) table: Arc<str>,
    pub(super) batch: u32,
    pub(super) item_bytes: u32,
    pub(super) payload: Arc<Payload>,
    pub(super) live: Arc<Live>,
    pub(super) end: Instant,
}

/// Returns the table to load.
///
/// # Errors
/// The table does not exist; there are several tables and none is named; or the structure of its items differs from the
/// structure of the items to insert.
pub(super) async fn choose_table(options: &Options, client: &Client) -> Result<Arc<str>> {
    let tables = client.server_info().await.map_err(|error| options.target.explain(error))?.tables;
    let names = || tables.iter().map(name).collect::<Vec<_>>().join(", ");
    let table = match (&options.table, tables.as_slice()) {
        (Some(wanted), _) => tables.iter().find(|table| name(table) == wanted).ok_or_else(|| {
            Failure::usage(format!("the server has no table {wanted:?}; it has: {}", names()))
        })?,
        (None, [only]) => only,
        (None, _) => {
            return Err(Failure::usage(format!(
                "the server has several tables; choose one with --table: {}",
                names()
            )));
        }
    };
    let writes = options.load.inserts() || options.fill > 0;
    if writes && table.config.signature.is_some() {
        let text = "has a signature, which the random items of the benchmark do not fit; use a table without a signature";
        return Err(Failure::usage(format!("table {:?} {text}", name(table))));
    }
    Ok(Arc::from(name(table)))
}

fn name(table: &TableInfo) -> &str {
    &table.config.name
}
