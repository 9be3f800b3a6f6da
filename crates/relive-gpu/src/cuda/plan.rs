//! What a collection does, as plain numbers: they are the same for every way of doing it.

use crate::{Error, Result};

/// Rows begin at multiples of this, so that whole vectors can be read.
pub const ALIGNMENT: u64 = 16;

/// Steps and offsets are below this in absolute value, so that no sum of them overflows.
const MAX_STEP: i64 = 1 << 60;

/// On which side of a window padding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadSide {
    /// Padding first: the data are at the end.
    Head,
    /// The data first.
    Tail,
}

/// The steps of a row that are wanted: `length` steps, from the row's step plus `offset` on. Those before the first step of
/// the trajectory and from its end on are padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Where it begins, relative to the row's step.
    pub offset: i64,
    /// How many steps come out.
    pub length: u64,
    /// Where padding goes.
    pub pad_side: PadSide,
}

/// The part of a window that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The first step of the trajectory.
    pub from: u64,
    /// How many.
    pub count: u64,
    /// Where the first one is in the window.
    pub at: u64,
}

impl Window {
    /// What there is for a row at `step` of a trajectory with `available` steps.
    #[must_use]
    pub fn steps(&self, step: i64, available: u64) -> Steps {
        let wanted = step + self.offset;
        let end = (wanted + self.length.cast_signed()).min(available.cast_signed());
        let from = wanted.max(0);
        let count = (end - from).max(0).cast_unsigned();
        let at = match self.pad_side {
            PadSide::Head => self.length - count,
            PadSide::Tail => 0,
        };
        Steps { from: from.cast_unsigned(), count, at }
    }
}

/// A type of elements that conversions know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 8 bits without a sign; not to convert to.
    U8 = 1,
    /// 16 bits of IEEE 754.
    F16 = 2,
    /// The upper 16 bits of an f32.
    Bf16 = 3,
    /// 32 bits of IEEE 754.
    F32 = 4,
    /// 64 bits of IEEE 754.
    F64 = 5,
}

impl Element {
    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Another type: each value becomes an f32, is multiplied by `scale`, and becomes the new type, rounded to the nearest, ties to even.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversion {
    /// What the store has.
    pub from: Element,
    /// What comes out: a float.
    pub to: Element,
    /// 1 leaves values as they are.
    pub scale: f32,
}

/// One column of a collection. Addresses are those that whoever collects can use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnPlan {
    /// Where row 0 begins, at a multiple of [`ALIGNMENT`].
    pub source: u64,
    /// Rows of the store.
    pub store_rows: u64,
    /// Bytes from row to row, a multiple of [`ALIGNMENT`].
    pub row_stride: u64,
    /// Bytes of one step.
    pub step_bytes: u64,
    /// The steps that are wanted.
    pub window: Window,
    /// The padding: whole elements as they come out, repeated to 16 bytes.
    pub pad: [u8; 16],
    /// Another type of elements than the store's.
    pub conversion: Option<Conversion>,
    /// Where the tensor (rows, window, step) begins, at a multiple of [`ALIGNMENT`]. It has no gaps.
    pub out: u64,
}

impl ColumnPlan {
    /// Bytes of a step that comes out.
    #[must_use]
    pub fn out_step_bytes(&self) -> u64 {
        self.conversion.map_or(self.step_bytes, |Conversion { from, to, .. }| {
            self.step_bytes / from.bytes() * to.bytes()
        })
    }

    /// Bytes of a row that comes out.
    #[must_use]
    pub fn out_row_bytes(&self) -> u64 {
        self.out_step_bytes() * self.window.length
    }

    /// Whether all of it can be computed in 64 bits, and stays within the rows of the store.
    ///
    /// # Errors
    /// It does not: the error names what.
    pub fn check(&self, rows: &Rows<'_>) -> Result<()> {
        let Self { source, row_stride, step_bytes, out, .. } = *self;
        let Window { offset, length, .. } = self.window;
        let aligned = [source, row_stride, out].iter().all(|number| number.is_multiple_of(ALIGNMENT));
        let converts = self.conversion.is_none_or(|Conversion { from, to, scale }| {
            step_bytes.is_multiple_of(from.bytes()) && to != Element::U8 && scale.is_finite()
        });
        // The widest conversion makes 8 bytes of one.
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

/// The rows of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Which row of the store each of them is.
    pub indices: &'a [u64],
    /// The current step of each, to which windows are relative.
    pub steps: &'a [i64],
    /// How many steps each trajectory has.
    pub lengths: &'a [u64],
}

impl Rows<'_> {
    /// Whether the lists are equally long.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self) -> Result<()> {
        let [indices, steps, lengths] = [self.indices.len(), self.steps.len(), self.lengths.len()];
        if indices == steps && indices == lengths {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{indices} indices, {steps} steps and {lengths} lengths: one of each for each row"
        )))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ((&u64, &i64), &u64)> {
        self.indices.iter().zip(self.steps).zip(self.lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_at_both_ends_of_a_trajectory() {
        let window = |offset, length, pad_side| Window { offset, length, pad_side };
        let whole = window(-1_000, 1_000, PadSide::Head);
        assert_eq!(whole.steps(1_000, 1_000), Steps { from: 0, count: 1_000, at: 0 });
        // Nothing after the window, though the trajectory goes on.
        assert_eq!(window(-100, 100, PadSide::Head).steps(50, 400), Steps { from: 0, count: 50, at: 50 });
        assert_eq!(window(-100, 100, PadSide::Tail).steps(50, 400), Steps { from: 0, count: 50, at: 0 });
        assert_eq!(window(0, 8, PadSide::Tail).steps(5, 9), Steps { from: 5, count: 4, at: 0 });
        assert_eq!(window(0, 8, PadSide::Head).steps(5, 9), Steps { from: 5, count: 4, at: 4 });
        assert_eq!(window(-20, 8, PadSide::Head).steps(5, 9).count, 0);
        assert_eq!(window(20, 8, PadSide::Tail).steps(5, 9).count, 0);
    }
}
