//! ListItems and GetItems: read a table's items without counting this as sampling.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use relive_engine::limits::MAX_LISTED_ITEMS;
use relive_engine::{EngineError, ItemPage, ListedItem, TableHandle};
use relive_table::Sampled;
use relive_tensor::CodecSet;
use relive_wire::codec;
use relive_wire::framing::framed;
use relive_wire::limits::SAMPLE_BATCH_BYTES;
use relive_wire::sample::Packer;
use relive_wire::v1::{GetItemsRequest, ListItemsRequest, ListItemsResponse, ListedItem as WireItem};
use tonic::Status;

use super::packing::Packing;
use super::replies;
use crate::services::{Services, run_blocking, status};
use crate::traffic::{ConnectionBudget, Load, StreamBudget};

/// The maximum number of items that are looked up and packed together.
const ITEMS_AT_ONCE: usize = 64;

/// The memory for one listed item while its response is built and sent: the item, its message, and the encoded message.
const LISTED_ITEM_BYTES: u64 = 256;

/// The number of batches without any item after which other connections have their turn.
const MAX_EMPTY_BATCHES: usize = 64;

/// Returns the encoded response. The memory for it is taken before the items are looked up, because the response is
/// built as a whole and the client may never read it.
pub(super) async fn list(
    services: Services,
    connection_budget: &ConnectionBudget,
    request: ListItemsRequest,
) -> Result<(Bytes, Load), Status> {
    let table = services.engine().table(&request.table).map_err(|error| status::of_engine(&error))?;
    let most = (request.limit as usize).clamp(1, MAX_LISTED_ITEMS);
    let count = table.info().current_size.min(most as u64);
    let load = connection_budget.stream_budget().take(count * LISTED_ITEM_BYTES).await;
    // If the call is abandoned, the memory counts until the thread is done.
    run_blocking(move || {
        let ItemPage { items, next } = table.items(request.from, most);
        let items = items.iter().map(item).collect();
        Ok((framed(&ListItemsResponse { items, next: next.unwrap_or(0) }), load))
    })
    .await
}

fn item(item: &ListedItem) -> WireItem {
    let ListedItem { data, priority, times_sampled } = item;
    WireItem {
        key: data.key,
        priority: *priority,
        times_sampled: *times_sampled,
        inserted_at_ns: data.inserted_at.as_nanos(),
        sequence: data.sequence,
        num_columns: u32::try_from(data.trajectory.num_columns()).unwrap_or(u32::MAX),
        encoded_bytes: data.trajectory.encoded_size_bytes(),
    }
}

/// The body of a GetItems response: samples in the same form as in SampleStream.
pub(super) struct ItemsBody {
    table: TableHandle,
    keys: Vec<u64>,
    /// The number of keys whose items have been packed.
    done: usize,
    /// The number of keys of the last batch. Each batch may have twice as many keys as the last one.
    last_batch: usize,
    /// The lookup in progress.
    lookup: Option<Lookup>,
    /// A batch whose next part is waiting for room among the bytes in flight.
    packing: Option<Packing>,
    out: VecDeque<Bytes>,
    budget: StreamBudget,
    /// The accounted bytes, which are those in `out` and those that the connection has already taken from `out`.
    load: Option<Load>,
    /// The codecs that the reader supports.
    codecs: CodecSet,
    is_over: bool,
}

type Lookup = Pin<Box<dyn Future<Output = Result<Vec<Option<Sampled>>, EngineError>> + Send>>;

pub(super) fn get(
    services: &Services,
    connection_budget: &ConnectionBudget,
    request: GetItemsRequest,
) -> Result<ItemsBody, Status> {
    let table = services.engine().table(&request.table).map_err(|error| status::of_engine(&error))?;
    Ok(ItemsBody {
        table,
        keys: request.keys,
        done: 0,
        last_batch: 1,
        lookup: None,
        packing: None,
        out: VecDeque::new(),
        budget: connection_budget.stream_budget(),
        load: None,
        codecs: codec::known_to_peer(&request.codecs),
        is_over: false,
    })
}

impl ItemsBody {
    /// Packs the next items. Returns false at the end.
    fn poll_pack(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        if let Some(load) = self.load.take() {
            load.arrived();
        }
        let mut packing = match self.packing.take() {
            Some(packing) => packing,
            None => {
                let Some(lookup) = self.lookup() else { return Poll::Ready(Ok(false)) };
                let found = ready!(lookup.as_mut().poll(cx));
                self.lookup = None;
                let batch = self.cut(found.map_err(|error| status::of_engine(&error))?);
                Packing::new(batch, self.codecs)
            }
        };
        let Poll::Ready(load) = self.budget.poll_take(packing.part_bytes(), cx) else {
            self.packing = Some(packing);
            return Poll::Pending;
        };
        self.load = Some(load);
        let mut packer = Packer::for_readers_of(self.codecs);
        packing.pack(&mut packer, self.table.name())?;
        self.out.extend(packer.finish().into_iter().flat_map(|message| message.parts));
        self.packing = (!packing.is_over()).then_some(packing);
        Poll::Ready(Ok(true))
    }

    /// Looks up the next items. Returns `None` at the end.
    fn lookup(&mut self) -> Option<&mut Lookup> {
        if self.lookup.is_none() {
            let most = self.last_batch.saturating_mul(2).min(ITEMS_AT_ONCE);
            let keys: Vec<u64> = self.keys.iter().skip(self.done).take(most).copied().collect();
            let table = self.table.clone();
            self.lookup = (!keys.is_empty())
                .then(|| -> Lookup { Box::pin(async move { table.get_items(&keys).await }) });
        }
        self.lookup.as_mut()
    }

    /// Returns the items of the next batch: the first ones until they exceed the size of a batch. The others are looked
    /// up again later, so that a slow reader does not keep them in memory.
    fn cut(&mut self, found: Vec<Option<Sampled>>) -> Vec<Sampled> {
        let bytes = |item: &Option<Sampled>| {
            item.as_ref().map_or(0, |item| item.item.trajectory.encoded_size_bytes())
        };
        self.last_batch = count_to_fill(found.iter().map(bytes), SAMPLE_BATCH_BYTES as u64);
        self.done += self.last_batch;
        found.into_iter().take(self.last_batch).flatten().collect()
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.is_over = true;
        Frame::trailers(replies::trailers(status))
    }
}

/// Returns how many of the first items, with these sizes, fill a batch of `full_bytes`.
fn count_to_fill(sizes: impl Iterator<Item = u64>, full_bytes: u64) -> usize {
    let mut bytes = 0;
    let fits = |size: &u64| {
        let has_room = bytes < full_bytes;
        bytes += size;
        has_room
    };
    sizes.take_while(fits).count()
}

impl http_body::Body for ItemsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        for _ in 0..MAX_EMPTY_BATCHES {
            if !self.out.is_empty() {
                break;
            }
            match ready!(self.poll_pack(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(Some(Ok(self.end(&Status::ok(""))))),
                Err(status) => return Poll::Ready(Some(Ok(self.end(&status)))),
            }
        }
        if self.out.is_empty() {
            // The table has none of many keys. Other connections on this thread have their turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.out.pop_front().map(|part| {
            if let Some(load) = &self.load {
                load.moved().fetch_add(part.len() as u64, Ordering::Relaxed);
            }
            Ok(Frame::data(part))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_with_the_item_that_fills_it() {
        let count = |sizes: &[u64]| count_to_fill(sizes.iter().copied(), 10);
        assert_eq!(count(&[4, 5, 1, 1]), 3, "the third fills it");
        assert_eq!(count(&[4, 5, 90, 1]), 3, "there was room for a byte");
        assert_eq!(count(&[90, 1]), 1, "one is more than enough");
        assert_eq!((count(&[0, 0, 3]), count(&[])), (3, 0));
    }
}
