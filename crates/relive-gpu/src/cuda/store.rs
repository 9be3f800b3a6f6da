//! Batches from a store, collected by a device: the CPU's plan, with addresses.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::collect::{Collector, Tail};
use super::device::Device;
use super::driver::{DevicePtr, Stream};
use super::memory::DeviceBuffer;
use super::plan::{ColumnPlan, Rows};
use super::registration::HostRegistration;
use crate::collect::{self, BatchPlan, check_rows};
use crate::memory::segment::Segment;
use crate::store::{Pinned, Reader};
use crate::{Error, Result};

/// The stores of this process that are registered, until their memory has been unregistered.
static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());
static UNREGISTERED: Condvar = Condvar::new();

#[derive(Debug)]
struct Registered {
    segment: usize,
    store: Weak<DeviceStore>,
}

fn registered() -> MutexGuard<'static, Vec<Registered>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store with columns that a device reads in place, over the bus.
#[derive(Debug)]
pub struct DeviceStore {
    device: Device,
    segment: Arc<Segment>,
    /// One registration per column of the schema.
    columns: Vec<HostRegistration>,
}

impl DeviceStore {
    /// Registers the columns of a store, or returns the existing registration, because memory can only be registered
    /// once in a process. Registration takes about 0.1 s per GiB.
    ///
    /// # Errors
    /// The driver refuses the memory, for example because the limit on locked memory is too low; the store is registered
    /// with another device; or a column is in a file.
    pub fn shared(device: &Device, reader: &Reader) -> Result<Arc<Self>> {
        let segment = Arc::as_ptr(reader.segment()).addr();
        let mut all = registered();
        while let Some(store) = all.iter().find(|entry| entry.segment == segment) {
            match store.store.upgrade() {
                Some(store) if store.device.is(device) => return Ok(store),
                Some(other) => {
                    // Dropping the last one takes the lock.
                    drop(all);
                    drop(other);
                    return Err(Error::unavailable("the store's memory is registered with another device"));
                }
                // It is being unregistered.
                None => all = UNREGISTERED.wait(all).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let store = Arc::new(Self::register(device, reader)?);
        all.push(Registered { segment, store: Arc::downgrade(&store) });
        Ok(store)
    }

    fn register(device: &Device, reader: &Reader) -> Result<Self> {
        let segment = Arc::clone(reader.segment());
        // A registration would lock the whole file in memory.
        if segment.has_files() {
            return Err(Error::unavailable(
                "a column of the store is in a file, which a device cannot read in place",
            ));
        }
        let register = |column: usize| {
            let (table, start) = segment.table(column);
            let bytes = table.stride * segment.capacity();
            // SAFETY: the table is mapped while the segment lives, and the registration shares ownership of the
            // segment.
            unsafe { HostRegistration::new(device, start as u64, bytes, Box::new(Arc::clone(&segment))) }
        };
        let columns = (0..segment.schema().columns().len()).map(register).collect::<Result<_>>()?;
        Ok(Self { device: device.clone(), segment, columns })
    }

    /// Collects pinned trajectories by `plan`, at their steps, into device memory with the column layout of a CPU
    /// [`Batch`](crate::Batch), and waits for completion.
    ///
    /// # Errors
    /// The trajectories belong to another store, the numbers of steps and trajectories differ, the kernels do not
    /// support a conversion, memory is insufficient, or the device fails.
    pub fn collect(
        &self,
        collector: &Collector,
        plan: &BatchPlan,
        pinned: &Pinned,
        steps: &[u64],
        out: &DeviceBuffer,
    ) -> Result<()> {
        if out.bytes() < plan.bytes {
            return Err(Error::invalid(format!(
                "{} bytes of the device for batches of {} bytes",
                out.bytes(),
                plan.bytes
            )));
        }
        let (stream, none) = (self.device.stream(), Tail { parts: &[], to: out.address() });
        // SAFETY: the memory is large enough; it and the pins stay valid until the work is complete.
        unsafe { self.enqueue(collector, plan, pinned, steps, (out.address(), none), stream)? };
        self.device.synchronize(stream)
    }

    /// Like [`collect`](Self::collect), but as part of a stream, and with a tail.
    ///
    /// # Safety
    /// `out` must refer to device memory for a batch, and the tail's address to memory for the tail. This memory, the
    /// pins and this store must stay valid until the stream has passed this point.
    ///
    /// # Errors
    /// Same as [`collect`](Self::collect).
    pub(super) unsafe fn enqueue(
        &self,
        collector: &Collector,
        plan: &BatchPlan,
        pinned: &Pinned,
        steps: &[u64],
        (out, tail): (DevicePtr, Tail<'_>),
        stream: Stream,
    ) -> Result<()> {
        if !Arc::ptr_eq(pinned.segment(), &self.segment) {
            return Err(Error::invalid(
                "the trajectories were pinned by a reader other than the device store's",
            ));
        }
        check_rows(pinned, steps, plan.rows)?;
        let columns: Vec<ColumnPlan> = plan.columns.iter().map(|column| self.column(column, out)).collect();
        let local = |row: &crate::Trajectory| pinned.shard().local(row.index);
        let indices = pinned.rows().iter().map(local).collect::<Result<Vec<u64>>>()?;
        let steps: Vec<i64> = steps.iter().map(|step| step.cast_signed()).collect();
        let lengths: Vec<u64> = pinned.rows().iter().map(|row| row.length).collect();
        let rows = Rows { indices: &indices, steps: &steps, lengths: &lengths };
        // SAFETY: the columns are registered; the rest is the caller's contract.
        unsafe { collector.collect_with(&columns, rows, tail, stream) }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    fn column(&self, plan: &collect::ColumnPlan, out: DevicePtr) -> ColumnPlan {
        let element = plan.pad_element();
        ColumnPlan {
            source: self.columns[plan.column].on_device().0,
            store_rows: self.segment.capacity(),
            row_stride: plan.stride,
            step_bytes: plan.step_bytes,
            offset: plan.offset,
            length: plan.length,
            pad: plan.pad,
            padding: std::array::from_fn(|byte| element[byte % element.len()]),
            convert: plan.convert,
            out: out.at(plan.output_at).0,
        }
    }
}

impl Drop for DeviceStore {
    fn drop(&mut self) {
        self.columns.clear();
        let own: *const Self = self;
        registered().retain(|entry| !std::ptr::eq(entry.store.as_ptr(), own));
        UNREGISTERED.notify_all();
    }
}
