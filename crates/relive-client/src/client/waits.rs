//! What a table's rate limiter waits for.

use super::{Client, Connection};
use crate::{Error, ErrorKind, Result};

/// What would hold a sample and an insert back now, in words; none if it may happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// What one sample waits for.
    pub sample: Option<String>,
    /// What one insert waits for.
    pub insert: Option<String>,
}

impl Client {
    /// What samples and inserts of `table` wait for now, for a caller who wonders why his call takes so long. In the same
    /// process the answer is there at once.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn waits(&self, table: &str) -> Result<Waits> {
        if let Connection::Local(local) = self.connection() {
            let table = local.table("waits", table)?;
            return Ok(Waits {
                sample: table.sample_shortfall().map(|missing| missing.to_string()),
                insert: table.insert_shortfall().map(|missing| missing.to_string()),
            });
        }
        if let Connection::Many(many) = self.connection() {
            return many.waits(table, self.timeout()).await;
        }
        let status = self.status().await?;
        status.table(table).map(|table| table.waits.clone()).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("waits: Priority table {table} was not found"))
        })
    }
}
