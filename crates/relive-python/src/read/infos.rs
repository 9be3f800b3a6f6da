//! Information about the items of a batch, as one array per field.

use std::sync::Arc;

use bytemuck::Pod;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relive_batch::{ALIGNMENT, BatchMemory, Pool};
use relive_client::SampleBatch;
use relive_tensor::DType;

use crate::arrays::buffer::{OutOfMemory, Shared};

/// Key, probability, table size, priority and times sampled of each item, stored field by field in one block.
pub(crate) struct Infos {
    memory: BatchMemory,
    len: usize,
}

impl Infos {
    pub(crate) fn of(batch: &SampleBatch, pool: &Arc<Pool>) -> Result<Infos, OutOfMemory> {
        let len = batch.len();
        let mut memory = pool.take(4 * stride::<u64>(len) + stride::<i32>(len))?;
        let mut rest = memory.bytes_mut();
        let keys: &mut [u64] = field(&mut rest, len);
        let probabilities: &mut [f64] = field(&mut rest, len);
        let sizes: &mut [i64] = field(&mut rest, len);
        let priorities: &mut [f64] = field(&mut rest, len);
        let times: &mut [i32] = field(&mut rest, len);
        let places = keys.iter_mut().zip(probabilities).zip(sizes).zip(priorities).zip(times);
        for (info, ((((key, probability), size), priority), times)) in batch.infos().zip(places) {
            (*key, *probability) = (info.key, info.probability);
            (*size, *priority) = (info.table_size.cast_signed(), info.priority);
            *times = info.times_sampled;
        }
        Ok(Infos { memory, len })
    }

    pub(crate) fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let (dims, wide) = ([self.len], stride::<u64>(self.len));
        let shared = Shared::new(py, self.memory.into_column())?;
        let array = |field: usize, dtype| shared.array(field * wide, dtype, &dims);
        (
            array(0, DType::UInt64)?,
            array(1, DType::Float64)?,
            array(2, DType::Int64)?,
            array(3, DType::Float64)?,
            array(4, DType::Int32)?,
        )
            .into_pyobject(py)
    }
}

/// Returns the number of bytes from the start of a field to the start of the next.
fn stride<T>(len: usize) -> usize {
    (len * size_of::<T>()).next_multiple_of(ALIGNMENT)
}

/// Splits off the first field of `rest`.
fn field<'a, T: Pod>(rest: &mut &'a mut [u8], len: usize) -> &'a mut [T] {
    let (bytes, after) = std::mem::take(rest).split_at_mut(stride::<T>(len));
    *rest = after;
    let (bytes, _) = bytes.split_at_mut(len * size_of::<T>());
    bytemuck::cast_slice_mut(bytes)
}
