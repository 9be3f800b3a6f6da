//! Collects batches into GPU memory that the caller's framework allocates.
#![expect(unsafe_code, reason = "a GPU writes to memory of a tensor; the block says why it is sound")]

use std::sync::Arc;

use pyo3::prelude::*;
use relive_gpu::cuda::{Device, DeviceBatches, DeviceEvent, DevicePtr, Stream};
use relive_gpu::{OUTPUT_ALIGNMENT, Pinned, PinnedRow, Reader, Window};

use super::batch::signed;
use super::draw::Drawn;
use super::raise::{OrRaise, Result};
use crate::arrays::dtypes::descr_of;

/// A loader's GPU, and where its batches go.
pub(super) struct OnDevice {
    batches: DeviceBatches,
    reader: Reader,
    /// Python's function that returns memory for a batch: the object that owns it, its address, and the stream in which
    /// it may be written.
    memory: Py<PyAny>,
}

/// A batch that a GPU is collecting, or has collected.
pub(super) struct DeviceBatch {
    memory: Py<PyAny>,
    complete: Arc<DeviceEvent>,
    rows: Vec<PinnedRow>,
}

/// The memory of a batch, indices and generations. The memory contains the windows, as described by
/// [`OnDevice::layout`], and then lists: the valid steps of each window, the lengths and the current steps as int64, the
/// importance weights and the probabilities as float32.
pub(super) type DeviceParts<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The bytes of the windows and of the lists, and for each window its offset, dtype, and shape of a row.
pub(super) type Layout<'py> = (u64, u64, Vec<(u64, Bound<'py, PyAny>, Vec<u64>)>);

impl OnDevice {
    pub(super) fn new(
        reader: &Reader,
        windows: &[Window],
        rows: u64,
        device: u32,
        memory: Py<PyAny>,
    ) -> Result<OnDevice> {
        let batches = DeviceBatches::new(&Device::open(device)?, reader, windows, rows)?;
        Ok(OnDevice { batches, reader: reader.clone(), memory })
    }

    /// Returns the layout of a batch's memory.
    pub(super) fn layout<'py>(&self, py: Python<'py>) -> PyResult<Layout<'py>> {
        let (plan, schema) = (self.batches.plan(), self.reader.schema());
        let window = |(number, column): (usize, &relive_gpu::ColumnPlan)| {
            let shape = plan.shape(schema, number, 1).split_off(1);
            Ok((column.output_at, descr_of(py, column.dtype)?, shape))
        };
        let windows = plan.columns.iter().enumerate().map(window).collect::<PyResult<_>>()?;
        let list_bytes = (plan.rows * (plan.columns.len() as u64 + 3) * 8).next_multiple_of(OUTPUT_ALIGNMENT);
        Ok((plan.bytes, list_bytes, windows))
    }

    /// Starts the collection of a batch, into new memory.
    pub(super) fn start(&self, py: Python<'_>, pinned: &Arc<Pinned>, drawn: &Drawn) -> PyResult<DeviceBatch> {
        let (memory, address, stream): (Py<PyAny>, u64, u64) = self.memory.bind(py).call0()?.extract()?;
        let collect = || {
            let list = self.list(pinned, drawn);
            let (out, stream) = (DevicePtr(address), Stream(stream));
            // SAFETY: Python allocates memory for the layout, aligned to 256 bytes, for use in this stream. The
            // framework does not reuse it until the stream has passed this point, even if the batch is dropped earlier.
            unsafe { self.batches.collect(pinned, &drawn.steps, &list, out, stream) }
        };
        let complete = py.detach(collect).or_raise(py)?;
        Ok(DeviceBatch { memory, complete, rows: pinned.rows().to_vec() })
    }

    /// Returns a batch that work in the given stream may use from now on.
    pub(super) fn finish<'py>(
        py: Python<'py>,
        batch: &DeviceBatch,
        stream: u64,
    ) -> PyResult<DeviceParts<'py>> {
        batch.complete.hold_back(Stream(stream)).or_raise(py)?;
        let indices = signed(py, batch.rows.iter().map(|row| row.index))?;
        let generations = signed(py, batch.rows.iter().map(|row| row.generation))?;
        Ok((batch.memory.bind(py).clone(), indices, generations))
    }

    fn list(&self, pinned: &Pinned, drawn: &Drawn) -> Vec<u8> {
        let rows = pinned.rows().iter().zip(&drawn.steps);
        let columns = self.batches.plan().columns.iter();
        let valid = columns
            .flat_map(|column| rows.clone().map(move |(row, step)| column.valid_steps(*step, row.length)));
        let lengths = pinned.rows().iter().map(|row| row.length);
        let steps = drawn.steps.iter().copied();
        let integers = valid.chain(lengths).chain(steps).flat_map(u64::to_le_bytes);
        let floats =
            drawn.importance.iter().chain(&drawn.probabilities).flat_map(|value| value.to_le_bytes());
        integers.chain(floats).collect()
    }
}
