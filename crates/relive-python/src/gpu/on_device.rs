//! Collects batches into GPU memory that the caller's framework allocates.
#![expect(unsafe_code, reason = "a GPU writes to memory of a tensor; the block says why it is sound")]

use std::sync::Arc;

use pyo3::prelude::*;
use relive_gpu::cuda::{Device, DeviceBatches, DeviceEvent, DevicePtr, DeviceStream, Stream};
use relive_gpu::{OUTPUT_ALIGNMENT, Pinned, Reader, Window};

use super::batch::signed;
use super::draw::Drawn;
use super::raise::{OrRaise, Result};
use crate::arrays::dtypes::descr_of;

/// A loader's GPU, and where its batches go.
pub(super) struct OnDevice {
    batches: DeviceBatches,
    device: Device,
    reader: Reader,
    /// The stream in which batches are collected ahead. Without it, they are collected in the consumer's stream.
    stream: Option<DeviceStream>,
    /// The Python function that returns memory for a batch: the object that owns it, its address, and the consumer's
    /// current stream, in which the memory may be used.
    memory: Py<PyAny>,
}

/// A batch that a GPU is collecting, or has collected.
pub(super) struct DeviceBatch {
    memory: Py<PyAny>,
    complete: Arc<DeviceEvent>,
    /// The stream in which the memory was allocated.
    stream: Stream,
}

impl Drop for DeviceBatch {
    fn drop(&mut self) {
        // The framework reuses the memory in this stream, which may not be the one that writes to it.
        drop(self.complete.hold_back(self.stream));
    }
}

/// The memory of a batch, indices and generations. The memory contains the windows, as described by
/// [`OnDevice::layout`], and then lists: the valid steps of each window, the lengths and the current steps as int64, the
/// importance weights and the probabilities as float32.
pub(super) type DeviceParts<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The numbers of bytes of the windows and of the lists, and for each window, its offset, its dtype, and the shape of a
/// row.
pub(super) type Layout<'py> = (u64, u64, Vec<(u64, Bound<'py, PyAny>, Vec<u64>)>);

impl OnDevice {
    pub(super) fn new(
        reader: &Reader,
        windows: &[Window],
        rows: u64,
        (device, memory): (u32, Py<PyAny>),
        is_ahead: bool,
    ) -> Result<OnDevice> {
        let device = Device::open(device)?;
        let batches = DeviceBatches::new(&device, reader, windows, rows)?;
        let stream = is_ahead.then(|| DeviceStream::new(&device)).transpose()?;
        Ok(OnDevice { batches, device, reader: reader.clone(), stream, memory })
    }

    /// Returns the layout of a batch's memory.
    pub(super) fn layout<'py>(&self, py: Python<'py>) -> PyResult<Layout<'py>> {
        let (plan, schema) = (self.batches.plan(), self.reader.schema());
        let window = |(number, column): (usize, &relive_gpu::ColumnPlan)| {
            let shape = plan.shape(schema, number, 1).split_off(1);
            Ok((column.output_at, descr_of(py, column.dtype)?, shape))
        };
        let windows = plan.columns.iter().enumerate().map(window).collect::<PyResult<_>>()?;
        let list_bytes =
            (self.batches.list_bytes(plan.rows) + plan.rows * 8).next_multiple_of(OUTPUT_ALIGNMENT);
        Ok((plan.bytes, list_bytes, windows))
    }

    /// Starts the collection of a batch, into new memory.
    pub(super) fn start(&self, py: Python<'_>, pinned: &Arc<Pinned>, drawn: &Drawn) -> PyResult<DeviceBatch> {
        let (memory, address, stream): (Py<PyAny>, u64, u64) = self.memory.bind(py).call0()?.extract()?;
        let consumer = Stream(stream);
        let collect = || -> relive_gpu::Result<Arc<DeviceEvent>> {
            let floats = [&drawn.importance, &drawn.probabilities];
            let [importance, probabilities] = floats.map(|values| bytemuck::cast_slice::<f32, u8>(values));
            let rest = [importance, probabilities];
            let stream = self.stream_after(consumer)?;
            // SAFETY: Python allocates memory for the layout, aligned to 256 bytes. It is used for nothing else before
            // the consumer's stream has passed `complete`.
            let begun =
                unsafe { self.batches.collect(pinned, &drawn.steps, &rest, DevicePtr(address), stream) };
            if begun.is_err() {
                // Parts of the work may be in the stream.
                let end = DeviceEvent::new(&self.device)?;
                end.record(stream)?;
                end.hold_back(consumer)?;
            }
            begun
        };
        let complete = py.detach(collect).or_raise(py)?;
        Ok(DeviceBatch { memory, complete, stream: consumer })
    }

    /// Returns the stream for collecting into memory that is free once the consumer's stream has passed this point.
    fn stream_after(&self, consumer: Stream) -> relive_gpu::Result<Stream> {
        let Some(own) = &self.stream else { return Ok(consumer) };
        let free = DeviceEvent::new(&self.device)?;
        free.record(consumer)?;
        free.hold_back(own.handle())?;
        Ok(own.handle())
    }

    /// Returns the batch of these draws, which work that is added to the given stream from now on may use.
    pub(super) fn finish<'py>(
        py: Python<'py>,
        batch: &DeviceBatch,
        drawn: &Drawn,
        stream: u64,
    ) -> PyResult<DeviceParts<'py>> {
        batch.complete.hold_back(Stream(stream)).or_raise(py)?;
        let indices = signed(py, drawn.indices.iter().copied())?;
        let generations = signed(py, drawn.generations.iter().copied())?;
        Ok((batch.memory.bind(py).clone(), indices, generations))
    }
}
