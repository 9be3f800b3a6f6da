//! Looking at the items of a table, without counting it as sampling.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relive_engine::ListedItem;
use relive_wire::codec;
use relive_wire::sample::Assembler;
use relive_wire::v1::{GetItemsRequest, ListItemsRequest, ListedItem as WireItem};

use super::{Client, Connection};
use crate::deadline::Deadline;
use crate::sampler::{Broken, Responses};
use crate::{Error, Result, Sample};

/// An item as it was when its table was looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemInfo {
    /// The item's key.
    pub key: u64,
    /// Its priority.
    pub priority: f64,
    /// How often it was sampled.
    pub times_sampled: i32,
    /// When it was inserted, by the server's clock.
    pub inserted_at: Option<SystemTime>,
    /// Its place in the order of the table's inserts.
    pub sequence: u64,
    /// Number of its columns.
    pub num_columns: usize,
    /// Bytes of its chunks as they are stored, also those parts that it does not refer to.
    pub encoded_bytes: u64,
}

/// Some items of a table in the order of their insertion.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemPage {
    /// The items.
    pub items: Vec<ItemInfo>,
    /// Where the next page begins; none if there are no further items.
    pub next: Option<u64>,
}

const GET_ITEMS: &str = "/relive.v1.ReplayService/GetItems";

impl Client {
    /// Up to `limit` items of `table` in the order of their insertion, beginning at `from`: 0, or what the page before says.
    ///
    /// A page makes the server look through the whole table, so that a few large pages are better than many small ones; it
    /// gives at most 100,000. Items that come or leave meanwhile may or may not be on it.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn items(&self, table: &str, from: u64, limit: usize) -> Result<ItemPage> {
        let remote = match self.connection() {
            Connection::Remote(remote) => remote,
            Connection::Many(many) => return many.items(table, from, limit, self.timeout()).await,
            Connection::Local(local) => {
                let page = local.table("items", table)?.items(from, limit);
                return Ok(ItemPage {
                    items: page.items.iter().map(ItemInfo::of).collect(),
                    next: page.next,
                });
            }
        };
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let request = ListItemsRequest { table: table.to_owned(), from, limit };
        let answer = self
            .call("items", || {
                let (mut stub, request) = (remote.own_stub(), request.clone());
                async move { stub.list_items(request).await }
            })
            .await?;
        let items = answer.items.iter().map(ItemInfo::from_message).collect();
        Ok(ItemPage { items, next: Some(answer.next).filter(|next| *next != 0) })
    }

    /// The items of these keys with their data, none where the table has no such item. It does not count as sampling: their
    /// probability is 0.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Unavailable` when the server goes away
    /// meanwhile, `Timeout` after the client's time.
    pub async fn get_items(&self, table: &str, keys: &[u64]) -> Result<Vec<Option<Sample>>> {
        if let Connection::Many(many) = self.connection() {
            return many.get_items(table, keys, self.timeout()).await;
        }
        if let Connection::Local(local) = self.connection() {
            let name: Arc<str> = Arc::from(table);
            let table = local.table("get_items", table)?;
            let found = Deadline::after(self.timeout()).run(table.get_items(keys)).await;
            let found = found.ok_or_else(|| self.timed_out("get_items", None))?;
            let found = found.map_err(|error| Error::from_engine("get_items", error))?.into_iter();
            return Ok(found.map(|item| item.map(|item| Sample::stored(item, &name))).collect());
        }
        let request =
            GetItemsRequest { table: table.to_owned(), keys: keys.to_vec(), codecs: codec::known() };
        let receive = self.receive_items(request);
        let found = Deadline::after(self.timeout()).run(receive).await;
        let found = found.ok_or_else(|| self.timed_out("get_items", None))??;
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn receive_items(&self, request: GetItemsRequest) -> Result<HashMap<u64, Sample>> {
        let Connection::Remote(remote) = self.connection() else { return Ok(HashMap::new()) };
        let mut channel = remote.channel();
        let failed = |error: Broken| match error {
            Broken::Status(status) => Error::from_status("get_items", status),
            Broken::Permanent(error) => error,
        };
        let mut responses = Responses::open(&mut channel, GET_ITEMS, Once(Some(request)))
            .await
            .map_err(|status| failed(status.into()))?;
        let (mut assembler, mut received) = (Assembler::default(), Vec::new());
        while let Some(message) = responses.message().await.map_err(|status| failed(status.into()))? {
            assembler.push(&message, &mut received).map_err(|error| failed(error.into()))?;
        }
        Ok(received.into_iter().map(|item| (item.info().key, Sample::received(item))).collect())
    }
}

impl ItemInfo {
    fn of(item: &ListedItem) -> ItemInfo {
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
struct Once<Q>(Option<Q>);

impl<Q: Unpin> futures_core::Stream for Once<Q> {
    type Item = Q;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Q>> {
        std::task::Poll::Ready(self.0.take())
    }
}
