//! Items of tables that have one: a state, and the run that it is of.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{ErrorKind, Nest, Tensor};

use crate::identity::Identity;
use crate::{Result, RlError};

/// Reading an item that is there does not wait.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take to confirm an item before it is asked once more, at first.
const FIRST_TIMEOUT: Duration = Duration::from_secs(4);

/// The same in the end: then the server is lost.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a run is to go on: whoever waits for its server asks now and then.
pub(crate) type GoesOn<'a> = &'a dyn Fn() -> bool;

/// Puts a state in the place of the one before, with what it is of.
pub(crate) fn put(
    client: &Client,
    table: &str,
    (identity, state): (&Identity, &[u8]),
    goes_on: GoesOn<'_>,
) -> Result<()> {
    let step = Nest::dict([("of", leaf(&identity.to_bytes()?)?), ("state", leaf(state)?)]);
    insert(client, &[table], &step, goes_on)
}

/// Puts a step into tables, of which it is sent to all at once. A server that does not answer is given ever more
/// time, but only while the run goes on.
pub(crate) fn insert(
    client: &Client,
    tables: &[&str],
    step: &Nest<Tensor>,
    goes_on: GoesOn<'_>,
) -> Result<()> {
    let priorities: Vec<(&str, f64)> = tables.iter().map(|table| (*table, 1.0)).collect();
    let mut timeout = FIRST_TIMEOUT;
    loop {
        match client.with_timeout(timeout).insert(step, &priorities) {
            Err(error) if error.kind() == ErrorKind::Timeout && timeout < LONGEST_TIMEOUT && goes_on() => {
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

/// The newest state in a table of one item, if there is one, and what it is of.
pub(crate) fn get(client: &Client, table: &str) -> Result<Option<(Identity, Vec<u8>)>> {
    let info = client.server_info()?;
    if info.table(table).is_none_or(|found| found.current_size == 0) {
        return Ok(None);
    }
    let samples = client.with_timeout(READ_TIMEOUT).sample(table, 1)?;
    let Some(sample) = samples.first() else { return Ok(None) };
    read(&sample.columns()?).map(Some)
}

/// What an item is of, and its state.
pub(crate) fn read(columns: &[Tensor]) -> Result<(Identity, Vec<u8>)> {
    let [identity, state] = columns else {
        let reason = format_args!("it has {} columns, not 2; it is of another version", columns.len());
        return Err(RlError::state("a run", reason));
    };
    let bytes = |column: &Tensor| column.to_vec::<u8>().map_err(|error| RlError::state("a run", error));
    Ok((Identity::from_bytes(&bytes(identity)?)?, bytes(state)?))
}

/// Whether an error may be that the server is gone, or its tables are since it has come back.
pub(crate) fn is_loss(error: &RlError) -> bool {
    use ErrorKind::{Cancelled, NotFound, Timeout, Unavailable};
    match error.cause() {
        RlError::Replay(error) => matches!(error.kind(), Cancelled | NotFound | Timeout | Unavailable),
        _ => false,
    }
}

/// Whether the table was there, but gave nothing in time.
pub(crate) fn is_timeout(error: &relive_client::Error) -> bool {
    error.kind() == ErrorKind::Timeout
}
