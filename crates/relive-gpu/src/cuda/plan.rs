//! The plan of a collection, as plain numbers that are the same for every implementation.

use relive_tensor::DType;

use crate::collect::{Convert, Pad, Span, is_float, span_from};
use crate::{Error, Result};

/// Rows start at multiples of this number, so that whole vectors can be read.
pub const ALIGNMENT: u64 = 16;

/// The maximum absolute value of steps and offsets, chosen so that no sum of them overflows.
const MAX_STEP: i64 = 1 << 60;

/// One column of a collection. Addresses are in the address space of the collecting processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnPlan {
    /// The address of row 0, a multiple of [`ALIGNMENT`]. If the rows are registered memory of the host, their
    /// [registration](super::HostRegistration) starts there.
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

    /// Checks that everything about `rows` rows can be computed in 64 bits.
    ///
    /// # Errors
    /// A value is out of range; the error names it.
    pub(super) fn check(&self, rows: u64) -> Result<()> {
        let Self { source, row_stride, step_bytes, offset, length, out, .. } = *self;
        let aligned = [source, row_stride, out].iter().all(|number| number.is_multiple_of(ALIGNMENT));
        let converts = self.convert.is_none_or(|Convert { from, to, scale }| {
            let known = code(from).is_some() && is_float(to);
            known && step_bytes.is_multiple_of(element_bytes(from)) && scale.is_finite()
        });
        // The widest conversion turns one byte into 8.
        let all = i128::from(length) * i128::from(step_bytes) * 8;
        let fits = all * (i128::from(rows) + 1) + i128::from(out) < 1 << 63;
        let store = i128::from(self.store_rows) * i128::from(row_stride) + i128::from(source) < 1 << 63;
        if !aligned
            || !converts
            || !fits
            || !store
            || step_bytes == 0
            || length == 0
            || offset.unsigned_abs() >= MAX_STEP.unsigned_abs()
        {
            return Err(Error::invalid(format!(
                "{self:?} for {rows} rows: addresses and strides must be multiples of {ALIGNMENT}, steps and windows must not be \
                 empty, steps must be whole elements of a conversion to floats, and all of it must fit in 63 bits"
            )));
        }
        Ok(())
    }

    /// Returns the number of steps for which a row of the store has room.
    fn room(&self) -> u64 {
        self.row_stride / self.step_bytes
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
        DType::Bool => 6,
        DType::Int8 => 7,
        DType::Int16 => 8,
        DType::UInt16 => 9,
        DType::Int32 => 10,
        DType::UInt32 => 11,
        DType::Int64 => 12,
        DType::UInt64 => 13,
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
    /// Checks the columns, and that the rows stay within the rows of their stores.
    ///
    /// # Errors
    /// The lists have different lengths, or a value is out of range; the error names it.
    pub fn check(&self, columns: &[ColumnPlan]) -> Result<()> {
        let [indices, steps, lengths] = [self.indices.len(), self.steps.len(), self.lengths.len()];
        if indices != steps || indices != lengths {
            return Err(Error::invalid(format!(
                "got {indices} indices, {steps} steps and {lengths} lengths; pass one of each for each row"
            )));
        }
        let (mut store_rows, mut room) = (u64::MAX, u64::MAX);
        for column in columns {
            column.check(indices as u64)?;
            (store_rows, room) = (store_rows.min(column.store_rows), room.min(column.room()));
        }
        for (row, ((index, step), available)) in self.iter().enumerate() {
            if *index >= store_rows || *available > room || step.unsigned_abs() >= MAX_STEP.unsigned_abs() {
                return Err(Error::invalid(format!(
                    "row {row} is index {index} at step {step} of {available}: the store has {store_rows} rows of at most \
                     {room} steps"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ((&u64, &i64), &u64)> {
        self.indices.iter().zip(self.steps).zip(self.lengths)
    }
}
