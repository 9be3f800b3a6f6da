//! Batches in device memory, collected while the host continues.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use super::collect::{Collector, Tail};
use super::device::Device;
use super::driver::{DevicePtr, Stream};
use super::event::DeviceEvent;
use super::store::DeviceStore;
use crate::collect::{BatchPlan, Window};
use crate::metrics::{Metrics, nanos};
use crate::store::{Pinned, Reader, StorePlace};
use crate::{Error, ErrorKind, Result};

/// The number of bytes of a row from which copy engines are faster than the kernel: 54 instead of 50 GB/s on an H100.
const COPY_ENGINE_FROM: u64 = 256 << 10;

/// A batch that is being collected: until `complete` has passed, its trajectories stay pinned, and the parts that
/// collect it stay alive.
struct InFlight {
    /// Passes when the device begins to collect.
    begin: DeviceEvent,
    complete: Arc<DeviceEvent>,
    pinned: Arc<Pinned>,
    parts: Arc<Parts>,
    /// The number of bytes that come from the trajectories, or `None` if a part of the work could not be started.
    bytes: Option<u64>,
}

/// The parts that a collection in flight uses.
#[derive(Debug)]
struct Parts {
    // Fields are dropped in this order; the collector waits for its work.
    collector: Collector,
    store: Arc<DeviceStore>,
}

/// Collects batches of a store into the caller's device memory, as part of the caller's streams.
///
/// A batch consists of the columns of its [plan](Self::plan), and then of lists of 64-bit integers with a number for each
/// row: the valid steps of each window, the lengths, and the current steps. After them, the caller's own bytes follow.
#[derive(Debug)]
pub struct DeviceBatches {
    parts: Arc<Parts>,
    plan: BatchPlan,
    in_flight: Sender<InFlight>,
}

impl DeviceBatches {
    /// Registers the store with the device if it is not registered yet. Registration takes about 0.1 s per GiB.
    ///
    /// # Errors
    /// The errors of [`Collector::new`](crate::Collector::new); the reader reads several stores, whose batches must be
    /// collected on the host; or the driver refuses the store's memory.
    pub fn new(device: &Device, reader: &Reader, windows: &[Window], rows: u64) -> Result<Self> {
        let plan = BatchPlan::new(reader.segment(), windows, rows)?;
        if !matches!(reader.places(), [StorePlace::Local(_)]) {
            return Err(Error::invalid("a device collects from a single store; this reader reads several"));
        }
        let (in_flight, begun) = mpsc::channel();
        // The thread ends when `in_flight` is dropped and all work is complete.
        let started =
            thread::Builder::new().name("relive-gpu-pins".to_owned()).spawn(move || release(&begun));
        started.map_err(|error| {
            Error::new(
                ErrorKind::System,
                format!("cannot start the thread that waits for collections: {error}"),
            )
        })?;
        let collector = Collector::new(device)?.with_copy_engine_from(COPY_ENGINE_FROM);
        let parts = Arc::new(Parts { collector, store: DeviceStore::shared(device, reader)? });
        Ok(Self { parts, plan, in_flight })
    }

    /// Returns the plan of the batches.
    #[must_use]
    pub fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Returns the number of bytes in the lists of a batch of `rows` rows.
    #[must_use]
    pub fn list_bytes(&self, rows: u64) -> u64 {
        rows * (self.plan.columns.len() as u64 + 2) * 8
    }

    /// Collects pinned trajectories, at their steps, as part of a stream, and writes `rest` behind the lists. Returns
    /// an event that passes when the batch is complete. The trajectories stay pinned until then.
    ///
    /// # Safety
    /// `out` must refer to device memory for the plan's bytes, the lists and the rest, aligned to 256 bytes, which stays
    /// valid until the stream has passed this point.
    ///
    /// # Errors
    /// The trajectories belong to another store or exceed the rows of a batch, the numbers of steps and trajectories
    /// differ, or the device fails.
    pub unsafe fn collect(
        &self,
        pinned: &Arc<Pinned>,
        steps: &[u64],
        rest: &[&[u8]],
        out: DevicePtr,
        stream: Stream,
    ) -> Result<Arc<DeviceEvent>> {
        let Parts { collector, store } = &*self.parts;
        let (begin, complete) = (DeviceEvent::new(store.device())?, DeviceEvent::new(store.device())?);
        let complete = Arc::new(complete);
        let (lists, bytes) = self.lists(pinned, steps);
        let parts = [&[bytemuck::cast_slice(&lists)], rest].concat();
        let tail = Tail { parts: &parts, to: out.at(self.plan.bytes) };
        begin.record(stream)?;
        // SAFETY: the caller's contract; the pins and the registration stay valid until `release` drops them.
        let enqueued = unsafe { store.enqueue(collector, &self.plan, pinned, steps, (out, tail), stream) };
        let begun = enqueued.and(complete.record(stream));
        let in_flight = InFlight {
            begin,
            complete: Arc::clone(&complete),
            pinned: Arc::clone(pinned),
            parts: Arc::clone(&self.parts),
            bytes: begun.is_ok().then_some(bytes),
        };
        // Even after a failure, part of the work may be in the stream. Sending cannot fail, because the thread ends only
        // after this sender is dropped.
        drop(self.in_flight.send(in_flight));
        begun.map(|()| complete)
    }

    /// Returns the lists of a batch, and the number of bytes that are read from the trajectories.
    fn lists(&self, pinned: &Pinned, steps: &[u64]) -> (Vec<u64>, u64) {
        let (rows, columns) = (pinned.rows(), &self.plan.columns);
        let (mut lists, mut bytes) = (Vec::with_capacity(rows.len() * (columns.len() + 2)), 0);
        for column in columns {
            let begin = lists.len();
            lists.extend(rows.iter().zip(steps).map(|(row, step)| column.valid_steps(*step, row.length)));
            bytes += lists[begin..].iter().sum::<u64>() * column.step_bytes;
        }
        lists.extend(rows.iter().map(|row| row.length));
        lists.extend_from_slice(steps);
        (lists, bytes)
    }
}

/// Counts batches and drops their pins once their trajectories have been read, however long this takes.
///
/// Before its turn in a stream, a collection may wait for any other work, which is not part of its time.
fn release(begun: &Receiver<InFlight>) {
    for InFlight { begin, complete, pinned, parts, bytes } in begun {
        begin.wait_for_end();
        let begin = Instant::now();
        let is_complete = complete.wait_for_end();
        if let Some(bytes) = bytes.filter(|_| is_complete) {
            let metrics = pinned.counters();
            Metrics::add(&metrics.collects, 1);
            Metrics::add(&metrics.collected_rows, pinned.rows().len() as u64);
            Metrics::add(&metrics.collected_bytes, bytes);
            Metrics::add(&metrics.collect_nanos, nanos(begin.elapsed()));
        }
        drop((pinned, parts));
    }
}
