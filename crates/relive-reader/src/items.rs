//! Lists and reads a table's items on one server, without sampling.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use relive_connection::{Connection, Deadline, Result, status_error, timeout_error};
use relive_engine::ListedItem;
use relive_wire::codec;
use relive_wire::sample::Assembler;
use relive_wire::v1::{GetItemsRequest, ListItemsRequest, ListedItem as WireItem};

use crate::samples::Sample;
use crate::stream::{Responses, StreamEnd};

/// The state of an item when it was listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemInfo {
    /// The item's key.
    pub key: u64,
    /// Its priority.
    pub priority: f64,
    /// The number of times that the item has been sampled.
    pub times_sampled: i32,
    /// When the item was inserted, according to the server's clock.
    pub inserted_at: Option<SystemTime>,
    /// The item's position in the order of the table's inserts.
    pub sequence: u64,
    /// The number of the item's columns.
    pub num_columns: usize,
    /// The number of bytes in the item's chunks as stored, including parts to which the item does not refer.
    pub encoded_bytes: u64,
}

/// Some items of a table, in insertion order.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemPage {
    /// The items.
    pub items: Vec<ItemInfo>,
    /// Where the next page begins, or `None` if there are no further items.
    pub next: Option<u64>,
}

const GET_ITEMS: &str = "/relive.v1.ReplayService/GetItems";

/// Returns up to `limit` items of `table` on one server, beginning at `from`.
pub(crate) async fn items_of(
    connection: &Connection,
    table: &str,
    from: u64,
    limit: usize,
    timeout: Duration,
) -> Result<ItemPage> {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let request = ListItemsRequest { table: table.to_owned(), from, limit };
    let answer = connection.call("items", timeout, || {
        let (mut stub, request) = (connection.replay_stub(), request.clone());
        async move { stub.list_items(request).await }
    });
    let answer = answer.await?;
    let items = answer.items.iter().map(ItemInfo::from_message).collect();
    Ok(ItemPage { items, next: Some(answer.next).filter(|next| *next != 0) })
}

/// Returns the items with the given keys on one server.
pub(crate) async fn get_items_of(
    connection: &Connection,
    table: &str,
    keys: &[u64],
    timeout: Duration,
) -> Result<Vec<Option<Sample>>> {
    let operation = "get_items";
    let request = GetItemsRequest { table: table.to_owned(), keys: keys.to_vec(), codecs: codec::known() };
    let found = Deadline::after(timeout).run(receive(connection, request)).await;
    let found = found.ok_or_else(|| timeout_error(operation, timeout, connection.address(), None))?;
    let found = found.map_err(|error| match error {
        StreamEnd::Status(status) => status_error(operation, status),
        StreamEnd::Permanent(error) => error,
    })?;
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn receive(
    connection: &Connection,
    request: GetItemsRequest,
) -> Result<HashMap<u64, Sample>, StreamEnd> {
    let mut channel = connection.channel();
    let mut responses = Responses::open(&mut channel, GET_ITEMS, OneRequest(Some(request))).await?;
    let (mut assembler, mut received) = (Assembler::default(), Vec::new());
    while let Some(message) = responses.message().await? {
        assembler.push(&message, &mut received)?;
    }
    Ok(received.into_iter().map(|item| (item.info().key, Sample::received(item))).collect())
}

impl ItemInfo {
    pub(crate) fn of(item: &ListedItem) -> ItemInfo {
        let ListedItem { data, priority, times_sampled } = item;
        ItemInfo {
            key: data.key,
            priority: *priority,
            times_sampled: *times_sampled,
            inserted_at: time_of(data.inserted_at.as_nanos()),
            sequence: data.sequence,
            num_columns: data.trajectory.num_columns(),
            encoded_bytes: data.trajectory.encoded_size_bytes(),
        }
    }

    fn from_message(item: &WireItem) -> ItemInfo {
        ItemInfo {
            key: item.key,
            priority: item.priority,
            times_sampled: item.times_sampled,
            inserted_at: time_of(item.inserted_at_ns),
            sequence: item.sequence,
            num_columns: usize::try_from(item.num_columns).unwrap_or(usize::MAX),
            encoded_bytes: item.encoded_bytes,
        }
    }
}

fn time_of(nanos: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

/// A single request.
struct OneRequest<Q>(Option<Q>);

impl<Q: Unpin> futures_core::Stream for OneRequest<Q> {
    type Item = Q;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Q>> {
        std::task::Poll::Ready(self.0.take())
    }
}
