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
    let text = format!("sample: no server has been reachable for table {table:?} for {waited:.1?}: {text}");
    Error::new(ErrorKind::Unavailable, text)
}

/// Returns an outage as the reason for a timeout. A caller that waits repeatedly for short times receives `Timeout`: an
/// outage becomes a separate error only once it has lasted for the client's timeout.
pub(crate) fn as_reason(outage: &Error) -> String {
    let text = outage.to_string();
    text.strip_prefix("sample: ").unwrap_or(&text).to_owned()
}
