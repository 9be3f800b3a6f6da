//! ListItems and GetItems: read a table's items without counting this as sampling.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use relive_engine::{EngineError, ItemPage, ListedItem, TableHandle};
use relive_table::Sampled;
use relive_tensor::CodecSet;
use relive_wire::codec;
use relive_wire::sample::Packer;
use relive_wire::v1::{GetItemsRequest, ListItemsRequest, ListItemsResponse, ListedItem as WireItem};
use tonic::Status;

use super::replies;
use crate::services::{Services, run_blocking, status};

/// The number of items that are packed before the first item is sent.
const ITEMS_AT_ONCE: usize = 64;

pub(super) async fn list(services: Services, request: ListItemsRequest) -> Result<ListItemsResponse, Status> {
    run_blocking(move || {
        let table = services.engine().table(&request.table)?;
        let ItemPage { items, next } = table.items(request.from, request.limit as usize);
        Ok(ListItemsResponse { items: items.iter().map(item).collect(), next: next.unwrap_or(0) })
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
    keys: std::vec::IntoIter<u64>,
    /// The lookup in progress.
    lookup: Option<Lookup>,
    out: VecDeque<Bytes>,
    /// The codecs that the reader supports.
    codecs: CodecSet,
    is_over: bool,
}

type Lookup = Pin<Box<dyn Future<Output = Result<Vec<Option<Sampled>>, EngineError>> + Send>>;

pub(super) fn get(services: &Services, request: GetItemsRequest) -> Result<ItemsBody, Status> {
    let table = services.engine().table(&request.table).map_err(|error| status::of_engine(&error))?;
    Ok(ItemsBody {
        table: table.clone(),
        keys: request.keys.into_iter(),
        lookup: None,
        out: VecDeque::new(),
        codecs: codec::known_to_peer(&request.codecs),
        is_over: false,
    })
}

impl ItemsBody {
    /// Looks up the next items. Returns `None` at the end.
    fn lookup(&mut self) -> Option<&mut Lookup> {
        if self.lookup.is_none() {
            let keys: Vec<u64> = self.keys.by_ref().take(ITEMS_AT_ONCE).collect();
            let table = self.table.clone();
            self.lookup = (!keys.is_empty())
                .then(|| -> Lookup { Box::pin(async move { table.get_items(&keys).await }) });
        }
        self.lookup.as_mut()
    }

    fn pack(&mut self, found: &[Option<Sampled>]) -> Result<(), Status> {
        let mut packer = Packer::for_readers_of(self.codecs);
        for sampled in found.iter().flatten() {
            packer.push(self.table.name(), sampled).map_err(|error| status::of_unreadable(&error))?;
        }
        self.out.extend(packer.finish().into_iter().flat_map(|message| message.parts));
        Ok(())
    }

    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.is_over = true;
        Frame::trailers(replies::trailers(status))
    }
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
        while self.out.is_empty()
            && let Some(lookup) = self.lookup()
        {
            let found = ready!(lookup.as_mut().poll(cx));
            self.lookup = None;
            let packed = found.map_err(|error| status::of_engine(&error)).and_then(|found| self.pack(&found));
            if let Err(status) = packed {
                return Poll::Ready(Some(Ok(self.end(&status))));
            }
        }
        Poll::Ready(Some(Ok(match self.out.pop_front() {
            Some(part) => Frame::data(part),
            None => self.end(&Status::ok("")),
        })))
    }
}
