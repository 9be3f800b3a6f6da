//! The items of single-item tables: each contains a state, and the identity of its run.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{ErrorKind, Nest, Tensor};

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

/// Returns the newest state in a single-item table with its run's identity, if there is one.
pub(crate) fn get(client: &Client, table: &str) -> Result<Option<(Identity, Vec<u8>)>> {
    let info = client.server_info()?;
    if info.table(table).is_none_or(|found| found.current_size == 0) {
        return Ok(None);
    }
    let samples = client.with_timeout(READ_TIMEOUT).sample(table, 1)?;
    let Some(sample) = samples.first() else { return Ok(None) };
    read(&sample.columns()?).map(Some)
}

/// Decodes the identity and the state of an item.
pub(crate) fn read(columns: &[Tensor]) -> Result<(Identity, Vec<u8>)> {
    let [identity, state] = columns else {
        let reason =
            format_args!("it has {} columns, not 2; another version of Relive wrote it", columns.len());
        return Err(RlError::state("a run", reason));
    };
    let bytes = |column: &Tensor| column.to_vec::<u8>().map_err(|error| RlError::state("a run", error));
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
