//! Batches of a store, collected by a device: the plan that the processor works from, with addresses.

use std::sync::Arc;

use super::collect::Collector;
use super::device::Device;
use super::driver::{DevicePtr, Stream};
use super::memory::{DeviceBuffer, HostRegistration};
use super::plan::{ColumnPlan, Rows};
use crate::collect::{self, BatchPlan};
use crate::memory::segment::Segment;
use crate::store::{Pinned, Reader};
use crate::{Error, Result};

/// A store whose columns a device reads where they lie, over the bus.
#[derive(Debug)]
pub struct DeviceStore {
    device: Device,
    segment: Arc<Segment>,
    /// One for each column of the schema.
    columns: Vec<HostRegistration>,
}

impl DeviceStore {
    /// Registers the columns of a store. That takes about 0.1 s per GiB.
    ///
    /// # Errors
    /// The driver refuses the memory, as it does when the limit on locked memory is too low.
    pub fn new(device: &Device, reader: &Reader) -> Result<Self> {
        let segment = Arc::clone(reader.segment());
        let register = |column: usize| {
            let (table, start) = segment.table(column);
            let bytes = table.stride * segment.capacity();
            // SAFETY: the table is mapped as long as the segment lives, of which the registration has a share.
            unsafe { HostRegistration::new(device, start as u64, bytes, Box::new(Arc::clone(&segment))) }
        };
        let columns = (0..segment.schema().columns().len()).map(register).collect::<Result<_>>()?;
        Ok(Self { device: device.clone(), segment, columns })
    }

    /// Collects what `plan` says of pinned trajectories, at their steps, into memory of the device, where columns lie
    /// as in a [`Batch`](crate::Batch) of the processor; and waits for it.
    ///
    /// # Errors
    /// Trajectories of another store, not as many steps as trajectories, a type that the kernels do not convert, too
    /// little memory; or the device fails.
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
        let stream = self.device.stream();
        // SAFETY: the memory is large enough, and it and the pins stay until the work has been waited for.
        unsafe { self.enqueue(collector, plan, pinned, steps, out.address(), stream)? };
        self.device.synchronize(stream)
    }

    /// As [`collect`](Self::collect), as part of a stream.
    ///
    /// # Safety
    /// At `out` there is memory of the device for a batch. It, the pins and this store stay until the stream has come
    /// past.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub unsafe fn enqueue(
        &self,
        collector: &Collector,
        plan: &BatchPlan,
        pinned: &Pinned,
        steps: &[u64],
        out: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        if !Arc::ptr_eq(pinned.segment(), &self.segment) {
            return Err(Error::invalid(
                "the trajectories were pinned by another reader than the device's store",
            ));
        }
        if pinned.rows().len() as u64 > plan.rows {
            let (rows, most) = (pinned.rows().len(), plan.rows);
            return Err(Error::invalid(format!("{rows} trajectories; the plan is of at most {most}")));
        }
        let columns: Vec<ColumnPlan> = plan.columns.iter().map(|column| self.column(column, out)).collect();
        let local = |row: &crate::PinnedRow| pinned.shard().local(row.index);
        let indices = pinned.rows().iter().map(local).collect::<Result<Vec<u64>>>()?;
        let steps: Vec<i64> = steps.iter().map(|step| step.cast_signed()).collect();
        let lengths: Vec<u64> = pinned.rows().iter().map(|row| row.length).collect();
        let rows = Rows { indices: &indices, steps: &steps, lengths: &lengths };
        // SAFETY: columns are registered, and the rest is as the caller says.
        unsafe { collector.collect(&columns, rows, stream) }
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
