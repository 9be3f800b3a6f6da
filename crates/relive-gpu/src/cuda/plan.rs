//! The plan of a collection, as plain numbers that are the same for every implementation.

use relive_tensor::DType;

use crate::collect::{Convert, Pad, Span, span_from};
use crate::{Error, Result};

/// Rows start at multiples of this number, so that whole vectors can be read.
pub const ALIGNMENT: u64 = 16;

/// The maximum absolute value of steps and offsets, chosen so that no sum of them overflows.
const MAX_STEP: i64 = 1 << 60;

/// One column of a collection. Addresses are in the address space of the collecting processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnPlan {
    /// The address of row 0, a multiple of [`ALIGNMENT`].
    pub source: u64,
    /// The number of rows in the store.
    pub store_rows: u64,
    /// The number of bytes between rows, a multiple of [`ALIGNMENT`].
    pub row_stride: u64,
    /// The number of bytes in one step.
    pub step_bytes: u64,
    /// The start of the window, relative to the row's step.
    pub offset: i64,
    /// The number of steps in the window.
    pub length: u64,
    /// The side on which padding is placed.
    pub pad: Pad,
    /// The padding: whole elements in the output type, repeated to 16 bytes.
    pub padding: [u8; 16],
    /// Conversion to another element type than the store's.
    pub convert: Option<Convert>,
    /// The address of the contiguous output tensor (rows, window, step), a multiple of [`ALIGNMENT`].
    pub out: u64,
}

impl ColumnPlan {
    /// Returns the bytes of an output step.
    #[must_use]
    pub fn out_step_bytes(&self) -> u64 {
        self.convert.map_or(self.step_bytes, |Convert { from, to, .. }| {
            self.step_bytes / element_bytes(from) * element_bytes(to)
        })
    }

    /// Returns the bytes of an output row.
    #[must_use]
    pub fn out_row_bytes(&self) -> u64 {
        self.out_step_bytes() * self.length
    }

    /// Returns the steps that exist in the window of a row at `step` of a trajectory with `available` steps.
    pub(super) fn span(&self, step: i64, available: u64) -> Span {
        span_from(i128::from(step) + i128::from(self.offset), available, self.length, self.pad)
    }

    /// Checks that no computation exceeds 64 bits, and that all accesses stay within the rows of the store.
    ///
    /// # Errors
    /// A value is out of range; the error names it.
    pub fn check(&self, rows: &Rows<'_>) -> Result<()> {
        let Self { source, row_stride, step_bytes, offset, length, out, .. } = *self;
        let aligned = [source, row_stride, out].iter().all(|number| number.is_multiple_of(ALIGNMENT));
        let converts = self.convert.is_none_or(|Convert { from, to, scale }| {
            let known = code(from).is_some() && code(to).is_some() && to != DType::UInt8;
            known && step_bytes.is_multiple_of(element_bytes(from)) && scale.is_finite()
        });
        // The widest conversion turns one byte into 8.
        let all = i128::from(length) * i128::from(step_bytes) * 8;
        let fits = all * i128::from(rows.indices.len() as u64 + 1) + i128::from(out) < 1 << 63;
        let store = i128::from(self.store_rows) * i128::from(row_stride) + i128::from(source) < 1 << 63;
        if !aligned
            || !converts
            || !fits
            || !store
            || step_bytes == 0
            || length == 0
            || offset.abs() >= MAX_STEP
        {
            return Err(Error::invalid(format!(
                "{self:?} for {} rows: addresses and strides must be multiples of {ALIGNMENT}, steps and windows must not be \
                 empty, steps must be whole elements of a conversion to floats, and all of it must fit in 63 bits",
                rows.indices.len()
            )));
        }
        for (row, ((index, step), available)) in rows.iter().enumerate() {
            let room = row_stride / step_bytes;
            if *index >= self.store_rows || *available > room || step.abs() >= MAX_STEP {
                return Err(Error::invalid(format!(
                    "row {row} is index {index} at step {step} of {available}: the store has {} rows of at most {room} steps",
                    self.store_rows
                )));
            }
        }
        Ok(())
    }
}

/// Returns the number that identifies a type to the kernels, or `None` if they do not convert it.
pub(super) fn code(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::UInt8 => 1,
        DType::Float16 => 2,
        DType::BFloat16 => 3,
        DType::Float32 => 4,
        DType::Float64 => 5,
        _ => return None,
    })
}

/// Strings, which cannot be converted, count as one byte.
fn element_bytes(dtype: DType) -> u64 {
    dtype.size_bytes().map_or(1, |bytes| bytes as u64)
}

/// The rows of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// For each row of the collection, the row of the store.
    pub indices: &'a [u64],
    /// The current step of each row, to which windows are relative.
    pub steps: &'a [i64],
    /// The number of steps of each trajectory.
    pub lengths: &'a [u64],
}

impl Rows<'_> {
    /// Checks that the lists have equal lengths.
    ///
    /// # Errors
    /// The lengths differ.
    pub fn check(&self) -> Result<()> {
        let [indices, steps, lengths] = [self.indices.len(), self.steps.len(), self.lengths.len()];
        if indices == steps && indices == lengths {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "got {indices} indices, {steps} steps and {lengths} lengths; pass one of each for each row"
        )))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ((&u64, &i64), &u64)> {
        self.indices.iter().zip(self.steps).zip(self.lengths)
    }
}
