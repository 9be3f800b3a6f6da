//! The items of the tables of a run. Most tables contain a single item, with a state and the identity of its run.

use std::time::Duration;

use relive_client::blocking::{Client, Sampler};
use relive_client::{ErrorKind, Nest, Sample, Tensor};

use crate::identity::Identity;
use crate::{Result, RlError};

/// The timeout for reading an item. The item exists, so the call waits only for the server's answer, not for an insert.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may initially take to confirm an item before the request is repeated.
const FIRST_TIMEOUT: Duration = Duration::from_secs(4);

/// The longest timeout for a confirmation, after repeated requests. A server that exceeds it counts as lost.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a run continues; checked periodically during waits for its server.
pub(crate) type ShouldContinue<'a> = &'a dyn Fn() -> bool;

/// Replaces a state and its run's identity.
pub(crate) fn put(
    client: &Client,
    table: &str,
    (identity, state): (&Identity, &[u8]),
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    let step = Nest::dict([("of", leaf(&identity.to_bytes()?)?), ("state", leaf(state)?)]);
    insert(client, &[table], &step, should_continue)
}

/// Inserts a step into tables, concurrently. Retries with increasing timeouts if the server does not answer, as long as
/// the run continues.
pub(crate) fn insert(
    client: &Client,
    tables: &[&str],
    step: &Nest<Tensor>,
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    let priorities: Vec<(&str, f64)> = tables.iter().map(|table| (*table, 1.0)).collect();
    let mut timeout = FIRST_TIMEOUT;
    loop {
        match client.with_timeout(timeout).insert(step, &priorities) {
            Err(error)
                if error.kind() == ErrorKind::Timeout && timeout < LONGEST_TIMEOUT && should_continue() =>
            {
                timeout = timeout.saturating_mul(2).min(LONGEST_TIMEOUT);
            }
            inserted => return Ok(inserted?),
        }
    }
}

pub(crate) fn leaf(bytes: &[u8]) -> Result<Nest<Tensor>> {
    let damaged = |error: &dyn std::fmt::Display| RlError::state("a run", error);
    let length = u32::try_from(bytes.len()).map_err(|error| damaged(&error))?;
    Ok(Nest::Leaf(Tensor::from_slice(bytes, [length]).map_err(|error| damaged(&error))?))
}

/// Returns bytes whose length differs from item to item, as a string.
pub(crate) fn text_leaf(bytes: Vec<u8>, what: &'static str) -> Result<Nest<Tensor>> {
    Ok(Nest::Leaf(Tensor::from_strings([bytes], []).map_err(|error| RlError::state(what, error))?))
}

/// Returns the bytes of the first column, which is a [string](text_leaf).
pub(crate) fn text<'a>(columns: &'a [Tensor], what: &'static str) -> Result<&'a [u8]> {
    let bytes = columns.first().and_then(Tensor::strings).and_then(<[_]>::first);
    bytes.map(|bytes| &bytes[..]).ok_or_else(|| RlError::state(what, "it contains no string"))
}

/// Returns the columns of the item in a single-item table. Returns `None` if there is no item within the timeout.
///
/// # Errors
/// The server is lost, or has no such table.
pub(crate) fn newest(client: &Client, table: &str, timeout: Duration) -> Result<Option<Vec<Tensor>>> {
    match client.with_timeout(timeout).sample(table, 1) {
        Err(error) if is_timeout(&error) => Ok(None),
        samples => Ok(samples?.first().map(Sample::columns).transpose()?),
    }
}

/// Like [`newest`], but also returns `None` if there is no such table, because no run has been started on this server.
///
/// # Errors
/// The server is lost.
pub(crate) fn newest_if_started(
    client: &Client,
    table: &str,
    timeout: Duration,
) -> Result<Option<Vec<Tensor>>> {
    match newest(client, table, timeout) {
        Err(RlError::Replay(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found,
    }
}

/// Returns the columns of the next item of a queue. Returns `None` if none arrives in time.
///
/// # Errors
/// The server is lost.
pub(crate) fn next(queue: &mut Sampler, timeout: Duration) -> Result<Option<Vec<Tensor>>> {
    match queue.next_with_timeout(timeout) {
        None => Ok(None),
        Some(Err(error)) if is_timeout(&error) => Ok(None),
        Some(sample) => Ok(Some(sample?.columns()?)),
    }
}

/// Returns the newest state in a single-item table with its run's identity, if there is one.
pub(crate) fn get(client: &Client, table: &str) -> Result<Option<(Identity, Vec<u8>)>> {
    let info = client.server_info()?;
    if info.table(table).is_none_or(|found| found.current_size == 0) {
        return Ok(None);
    }
    let samples = client.with_timeout(READ_TIMEOUT).sample(table, 1)?;
    let Some(sample) = samples.first() else { return Ok(None) };
    read(&sample.columns()?, "a run").map(Some)
}

/// Decodes the identity and the state of an item. `what` names the item in error messages.
pub(crate) fn read(columns: &[Tensor], what: &'static str) -> Result<(Identity, Vec<u8>)> {
    let [identity, state] = columns else {
        let reason =
            format_args!("it has {} columns, not 2; another version of Relive wrote it", columns.len());
        return Err(RlError::state(what, reason));
    };
    let bytes = |column: &Tensor| column.to_vec::<u8>().map_err(|error| RlError::state(what, error));
    Ok((Identity::from_bytes(&bytes(identity)?)?, bytes(state)?))
}

/// Returns whether an error may mean that the server is lost, or has restarted without its tables.
pub(crate) fn is_loss(error: &RlError) -> bool {
    use ErrorKind::{Cancelled, NotFound, Timeout, Unavailable};
    match error.cause() {
        RlError::Replay(error) => matches!(error.kind(), Cancelled | NotFound | Timeout | Unavailable),
        _ => false,
    }
}

/// Returns whether the table exists, but returned nothing in time.
pub(crate) fn is_timeout(error: &relive_client::Error) -> bool {
    error.kind() == ErrorKind::Timeout
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::TableConfig;

    use super::*;

    /// The lease relies on the first: a server that has lost its tables is not a server without a driver.
    #[test]
    fn a_missing_table_is_an_error_unless_the_run_may_not_have_started() {
        let engine = Engine::builder().table(TableConfig::new("empty")).build().unwrap();
        let client = Client::in_process(engine).unwrap();
        let Err(RlError::Replay(error)) = newest(&client, "missing", Duration::ZERO) else {
            panic!("a missing table is an error");
        };
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(newest_if_started(&client, "missing", Duration::ZERO).unwrap(), None);
        assert_eq!(newest(&client, "empty", Duration::ZERO).unwrap(), None);
    }
}
