//! Batches in device memory, collected while the host continues.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use super::collect::{Collector, Tail};
use super::device::Device;
use super::driver::{DevicePtr, Stream};
use super::event::DeviceEvent;
use super::plan::code;
use super::store::DeviceStore;
use crate::collect::{BatchPlan, Convert, Window};
use crate::metrics::{Metrics, nanos};
use crate::store::{Pinned, Reader, StorePlace};
use crate::{Error, ErrorKind, Result};

/// A batch that is being collected: until the event has passed, its trajectories stay pinned and its store registered.
type InFlight = (Arc<DeviceEvent>, Arc<Pinned>, Arc<DeviceStore>);

/// Collects batches of a store into device memory of the caller, as part of the caller's streams.
///
/// A batch consists of the columns of its [plan](Self::plan), followed by a list of bytes.
#[derive(Debug)]
pub struct DeviceBatches {
    store: Arc<DeviceStore>,
    collector: Collector,
    plan: BatchPlan,
    in_flight: Sender<InFlight>,
}

impl DeviceBatches {
    /// Registers the store with the device if it is not registered yet. Registration takes about 0.1 s per GiB.
    ///
    /// # Errors
    /// The errors of [`Collector::new`](crate::Collector::new); the reader reads several stores, or the kernels do not
    /// support a window's cast (in both cases, batches must be collected on the host); or the driver refuses the
    /// store's memory.
    pub fn new(device: &Device, reader: &Reader, windows: &[Window], rows: u64) -> Result<Self> {
        let plan = BatchPlan::new(reader.segment(), windows, rows)?;
        if !matches!(reader.places(), [StorePlace::Local(_)]) {
            return Err(Error::invalid("a device collects from a single store; this reader reads several"));
        }
        for (column, window) in plan.columns.iter().zip(windows) {
            if let Some(Convert { from, to, .. }) = column.convert
                && (code(from).is_none() || code(to).is_none())
            {
                return Err(Error::invalid(format!(
                    "a device does not convert {} to {} (column {:?})",
                    from.numpy_name(),
                    to.numpy_name(),
                    window.column
                )));
            }
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
        Ok(Self {
            store: DeviceStore::shared(device, reader)?,
            collector: Collector::new(device)?,
            plan,
            in_flight,
        })
    }

    /// Returns the plan of the batches.
    #[must_use]
    pub fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Collects pinned trajectories, at their steps, as part of a stream, and writes `list` after the columns. Returns
    /// an event that passes when the batch is complete. The trajectories stay pinned until then.
    ///
    /// # Safety
    /// `out` must refer to device memory for the plan's bytes and the list, aligned to 256 bytes, which stays valid
    /// until the stream has passed this point.
    ///
    /// # Errors
    /// The trajectories belong to another store or exceed the rows of a batch, the numbers of steps and trajectories
    /// differ, or the device fails.
    pub unsafe fn collect(
        &self,
        pinned: &Arc<Pinned>,
        steps: &[u64],
        list: &[u8],
        out: DevicePtr,
        stream: Stream,
    ) -> Result<Arc<DeviceEvent>> {
        let begin = Instant::now();
        let event = Arc::new(DeviceEvent::new(self.store.device())?);
        let tail = Tail { bytes: list, to: out.at(self.plan.bytes) };
        // SAFETY: the caller's contract; the pins and the registration stay valid until `release` drops them.
        let enqueued =
            unsafe { self.store.enqueue(&self.collector, &self.plan, pinned, steps, (out, tail), stream) };
        event.record(stream)?;
        // Even after a failure, part of the work may be in the stream. Sending cannot fail, because the thread ends
        // only after this sender is dropped.
        drop(self.in_flight.send((Arc::clone(&event), Arc::clone(pinned), Arc::clone(&self.store))));
        enqueued?;
        self.count(pinned, steps, begin);
        Ok(event)
    }

    fn count(&self, pinned: &Pinned, steps: &[u64], begin: Instant) {
        let bytes = self.plan.columns.iter().map(|column| {
            let rows = pinned.rows().iter().zip(steps);
            let valid: u64 = rows.map(|(row, step)| column.valid_steps(*step, row.length)).sum();
            valid * column.output_step_bytes
        });
        let metrics = pinned.counters();
        Metrics::add(&metrics.collects, 1);
        Metrics::add(&metrics.collected_rows, steps.len() as u64);
        Metrics::add(&metrics.collected_bytes, bytes.sum());
        Metrics::add(&metrics.collect_nanos, nanos(begin.elapsed()));
    }
}

/// Drops pins once their trajectories have been read. If the device fails, nothing reads them any more.
fn release(begun: &Receiver<InFlight>) {
    for (event, pinned, store) in begun {
        drop(event.finish());
        drop((pinned, store));
    }
}
