//! Computes the layout of a segment (`docs/gpu-store-format.md`).

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::schema::{MAX_COLUMNS, Schema};
use relive_gpu_protocol::slot::{ANSWER_COLUMNS, Slot};

/// Blocks and arrays start at multiples of this: a line of a GPU's L2 cache, and the size of a bus request.
pub(crate) const LINE: u64 = 128;
/// Small tables and the tables in files start at multiples of this size.
pub(crate) const PAGE: u64 = 4096;
/// Tables that can use huge pages start at multiples of the huge pages' size.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;
/// The offset of the schema.
pub(crate) const SCHEMA_AT: u64 = PAGE;
/// The number of bytes of a writer's slot.
pub(crate) const SLOT_BYTES: u64 = 256;
/// The largest size of a segment or a file, which is the system's limit, less a page for rounding up.
const LARGEST: u64 = i64::MAX as u64 - PAGE;
const _: () = assert!(size_of::<Slot>() as u64 == SLOT_BYTES && ANSWER_COLUMNS == MAX_COLUMNS);

/// The place of a column's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// In the segment: host memory that all processes share.
    #[default]
    Host,
    /// In a mapped file with this name, for columns that are larger than memory. The store creates the file, and
    /// removes it on drop.
    File(PathBuf),
}

/// The numbers that determine a segment, apart from the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) capacity: u64,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    pub(crate) rank: u64,
    pub(crate) ranks: u64,
    /// 0 means unlimited.
    pub(crate) max_times_sampled: u64,
}

/// A column's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The offset in the segment, or in the column's file.
    pub(crate) offset: u64,
    pub(crate) stride: u64,
    pub(crate) step_bytes: u64,
    pub(crate) bytes: u64,
}

/// Offsets of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) schema_bytes: u64,
    pub(crate) claims: u64,
    pub(crate) slots: u64,
    pub(crate) states: u64,
    pub(crate) weights: u64,
    pub(crate) lengths: u64,
    pub(crate) inserted: u64,
    pub(crate) sampled: u64,
    pub(crate) pins: u64,
    pub(crate) tables: Vec<Table>,
    pub(crate) segment_bytes: u64,
}

impl Layout {
    /// Places everything consecutively.
    pub(crate) fn new(schema: &Schema, shape: &Shape, tiers: &[Tier], schema_bytes: u64) -> Result<Self> {
        let too_large = || {
            Error::invalid(format!(
                "{} trajectories of {} have more than 2^63 bytes; lower the capacity",
                shape.capacity,
                schema.describe()
            ))
        };
        let mut end = SCHEMA_AT + schema_bytes;
        let mut array = |count: u64, bytes: u64| {
            let begin = round_up(end, LINE)?;
            end = begin.checked_add(count.checked_mul(bytes)?)?;
            Some(begin)
        };
        let rows = shape.capacity;
        let mut place = |count, bytes| array(count, bytes).ok_or_else(too_large);
        let mut layout = Self {
            schema_bytes,
            claims: place(u64::from(shape.readers), 8)?,
            slots: place(u64::from(shape.writers), SLOT_BYTES)?,
            states: place(rows, 8)?,
            weights: place(rows, 4)?,
            lengths: place(rows, 4)?,
            inserted: place(rows, 8)?,
            sampled: place(rows, 8)?,
            pins: place(rows.checked_mul(u64::from(shape.readers)).ok_or_else(too_large)?, 4)?,
            tables: Vec::with_capacity(tiers.len()),
            segment_bytes: 0,
        };
        for (column, tier) in tiers.iter().enumerate() {
            let table = table(schema, column, rows, tier, &mut end).ok_or_else(too_large)?;
            layout.tables.push(table);
        }
        layout.segment_bytes = round_up(end, PAGE).filter(|&end| end <= LARGEST).ok_or_else(too_large)?;
        Ok(layout)
    }
}

/// Places a column's table; a table in a file does not change the segment.
fn table(schema: &Schema, column: usize, rows: u64, tier: &Tier, end: &mut u64) -> Option<Table> {
    let step_bytes = schema.step_bytes(column);
    let stride = round_up(schema.max_steps().checked_mul(step_bytes)?, LINE)?;
    let bytes = stride.checked_mul(rows)?;
    let offset = match tier {
        Tier::File(_) => PAGE,
        Tier::Host => round_up(*end, if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE })?,
    };
    let table_end = offset.checked_add(bytes).filter(|&end| end <= LARGEST)?;
    if *tier == Tier::Host {
        *end = table_end;
    }
    Some(Table { offset, stride, step_bytes, bytes })
}

/// Returns the smallest multiple of `unit` that is at least `value`.
pub(crate) fn round_up(value: u64, unit: u64) -> Option<u64> {
    value.checked_next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;
    use proptest::prelude::*;
    use relive_tensor::DType;

    fn shape(capacity: u64) -> Shape {
        Shape { capacity, readers: 4, writers: 3, rank: 0, ranks: 1, max_times_sampled: 0 }
    }

    /// Defects 22 and 23: products of rows, steps and bytes have 64 bits, and an overflow is an error.
    #[test]
    fn tables_may_be_larger_than_any_32_bit_number() {
        let schema = Schema::new(1000, vec![Column::new("image", DType::UInt8, &[84, 84, 4])]).unwrap();
        let layout = Layout::new(&schema, &shape(1_000_000), &[Tier::Host], 48).unwrap();
        assert_eq!(layout.tables[0].stride, 28_224_000);
        assert_eq!(layout.tables[0].bytes, 28_224_000_000_000);
        let error = Layout::new(&schema, &shape(1 << 62), &[Tier::Host], 48).unwrap_err();
        assert!(error.to_string().contains("lower the capacity"), "{error}");
    }

    /// A table of 2^64 - 128 bytes fits into 64 bits, but not together with the first page of its file.
    #[test]
    fn tables_in_files_do_not_wrap_around() {
        let bytes = (1 << 57) / 7 * 128;
        let schema = Schema::new(1, vec![Column::new("image", DType::UInt8, &[bytes])]).unwrap();
        let tiers = [Tier::File("anywhere".into())];
        let error = Layout::new(&schema, &shape(7), &tiers, 48).unwrap_err();
        assert!(error.to_string().contains("lower the capacity"), "{error}");
    }

    proptest! {
        /// Defect 21: whatever the columns are, each block starts at a multiple of a line, and no two blocks overlap.
        #[test]
        fn blocks_are_aligned_and_disjoint(
            sizes in proptest::collection::vec(1_u64..3000, 1..6), steps in 1_u64..50, capacity in 1_u64..2000,
        ) {
            let columns = sizes.iter().enumerate();
            let columns = columns.map(|(i, &size)| Column::new(i.to_string(), DType::UInt8, &[size])).collect();
            let schema = Schema::new(steps, columns).unwrap();
            let tiers = vec![Tier::Host; sizes.len()];
            let shape = shape(capacity);
            let layout = Layout::new(&schema, &shape, &tiers, 96).unwrap();
            let mut end = layout.pins + 4 * capacity * u64::from(shape.readers);
            for (table, size) in layout.tables.iter().zip(&sizes) {
                prop_assert!(table.offset >= end);
                let unit = if table.bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
                prop_assert_eq!(table.offset % unit, 0);
                prop_assert!(table.stride % LINE == 0 && table.stride >= steps * size && table.stride < steps * size + LINE);
                end = table.offset + table.bytes;
            }
            prop_assert!(layout.segment_bytes >= end);
        }
    }
}
