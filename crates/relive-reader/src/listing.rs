//! Lists and reads the items of a table in this process, on one server, or on many servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use relive_connection::{Deadline, Error, Local, Result, engine_error};
use relive_fleet::{Backend, Fleet, Target};

use crate::items::{ItemInfo, ItemPage, get_items_of, items_of};
use crate::samples::Sample;

/// The bit at which the server's number begins in a page's position. The lower bits are the position on that server,
/// which is the number of an insert.
const SERVER_SHIFT: u32 = 44;
const POSITION_MASK: u64 = (1 << SERVER_SHIFT) - 1;

/// Returns up to `limit` items of `table` in insertion order, beginning at `from`, as `Client::items` does.
///
/// # Errors
/// `NotFound` for an unknown table; `Unimplemented` from a dm-reverb server; `Timeout` once the backend's timeout has
/// expired.
pub async fn items(backend: &Backend, table: &str, from: u64, limit: usize) -> Result<ItemPage> {
    let timeout = backend.timeout();
    match backend.target() {
        Target::Server(connection) => items_of(connection, table, from, limit, timeout).await,
        Target::Fleet(fleet) => items_of_fleet(fleet, table, from, limit, timeout).await,
        Target::Process(local) => {
            let page = local.table("items", table)?.items(from, limit);
            Ok(ItemPage { items: page.items.iter().map(ItemInfo::of).collect(), next: page.next })
        }
    }
}

/// Returns the items with the given keys, including their data, with `None` for unknown keys, as `Client::get_items`
/// does.
///
/// # Errors
/// The errors of [`items`], and `Unavailable` if the server disconnects in the meantime.
pub async fn get_items(backend: &Backend, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
    let timeout = backend.timeout();
    match backend.target() {
        Target::Server(connection) => get_items_of(connection, table, keys, timeout).await,
        Target::Fleet(fleet) => get_items_of_fleet(fleet, table, keys, timeout).await,
        Target::Process(local) => {
            match Deadline::after(timeout).run(get_local_items(local, table, keys)).await {
                Some(found) => found,
                None => Err(backend.timed_out("get_items")),
            }
        }
    }
}

async fn get_local_items(local: &Local, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
    let name: Arc<str> = Arc::from(table);
    let found = local.table("get_items", table)?.get_items(keys).await;
    let found = found.map_err(|error| engine_error("get_items", error))?.into_iter();
    Ok(found.map(|item| item.map(|item| Sample::stored(item, &name))).collect())
}

/// Returns items from the server that `from` identifies, which is initially the first one. The items of the next server
/// follow.
async fn items_of_fleet(
    fleet: &Fleet,
    table: &str,
    from: u64,
    limit: usize,
    timeout: Duration,
) -> Result<ItemPage> {
    let (up, timeout) = fleet.wait_for_one("items", timeout).await?;
    let number = u32::try_from(from >> SERVER_SHIFT).unwrap_or(u32::MAX);
    let Some(server) = up.iter().find(|server| server.number() >= number) else {
        return Ok(ItemPage { items: Vec::new(), next: None });
    };
    let position = if server.number() == number { from & POSITION_MASK } else { 0 };
    let asked = fleet.ask("items", std::slice::from_ref(server), |connection, _| {
        let table = table.to_owned();
        async move { items_of(&connection, &table, position, limit, timeout).await }
    });
    let page = asked.await.all()?.into_iter().next().map(|(_, page)| page);
    let ItemPage { items, next } = page.unwrap_or(ItemPage { items: Vec::new(), next: None });
    let next = match next {
        Some(next) if next > POSITION_MASK => {
            let text = format!(
                "items: position {next} of table {table:?} is beyond the range of pages over many servers"
            );
            return Err(Error::invalid(text));
        }
        Some(next) => Some(u64::from(server.number()) << SERVER_SHIFT | next),
        None => up
            .iter()
            .find(|other| other.number() > server.number())
            .map(|other| u64::from(other.number()) << SERVER_SHIFT),
    };
    Ok(ItemPage { items, next })
}

/// Returns the items with the given keys, from the servers that have them.
async fn get_items_of_fleet(
    fleet: &Fleet,
    table: &str,
    keys: &[u64],
    timeout: Duration,
) -> Result<Vec<Option<Sample>>> {
    let (up, timeout) = fleet.wait_for_one("get_items", timeout).await?;
    let asked = fleet.ask("get_items", &up, |connection, _| {
        let (table, keys) = (table.to_owned(), keys.to_vec());
        async move { get_items_of(&connection, &table, &keys, timeout).await }
    });
    let found = asked.await.present()?.into_iter().flat_map(|(_, items)| items).flatten();
    let found: HashMap<u64, Sample> = found.map(|item| (item.info().key, item)).collect();
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}
