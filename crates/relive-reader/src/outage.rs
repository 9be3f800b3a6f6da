//! Times in which a server is unreachable.

use std::time::Duration;

use relive_connection::{Error, ErrorKind};
use tokio::time::Instant;

/// A time in which a server is unreachable, since its first failure.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    /// The last failure.
    text: String,
}

impl Outage {
    /// Returns the outage after a failure; it continues an `earlier` outage that has not ended.
    pub(crate) fn continued(earlier: Option<Outage>, text: String) -> Outage {
        let since = earlier.map_or_else(Instant::now, |outage| outage.since);
        Outage { since, text }
    }

    /// Returns the error for a caller that stops waiting for samples of `table`.
    pub(crate) fn error(&self, table: &str) -> Error {
        no_server(table, self.since.elapsed(), &self.text)
    }
}

/// Returns the error for a server that was unreachable for the time `waited`.
pub(crate) fn no_server(table: &str, waited: Duration, text: &str) -> Error {
    let text = format!("sample: no server for table {table:?} since {waited:?}: {text}");
    Error::new(ErrorKind::Unavailable, text)
}
