//! The manifest: a checkpoint without the rows' bytes (`docs/gpu-store-format.md`).

use crate::bytes::{Cursor, narrow, put, wide};
use crate::error::{Error, Result};
use crate::memory::header::{decode_schema, encode_schema};
use crate::memory::layout::Tier;
use crate::schema::Schema;
use crate::store::Removal;

/// The file name of the manifest.
pub(super) const MANIFEST: &str = "store.manifest";
/// The file that a process locks while it writes a checkpoint.
pub(super) const LOCK: &str = "store.lock";
const MAGIC: [u8; 8] = *b"RLVGCKPT";
const VERSION: u32 = 1;
/// The offset of the first byte that the checksum covers.
const COVERED: usize = 16;
/// A row's generation shares a word with its state.
const MAX_GENERATION: u64 = (1 << 56) - 1;

/// A checkpoint without the rows' bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) schema: Schema,
    pub(super) capacity: u64,
    pub(super) rank: u64,
    pub(super) ranks: u64,
    pub(super) number: u64,
    pub(super) committed: u64,
    pub(super) random: u64,
    pub(super) removal: u64,
    pub(super) max_selectable: u64,
    pub(super) max_times_sampled: u64,
    pub(super) nonce: u64,
    pub(super) generations: Vec<u64>,
    pub(super) free: Vec<u64>,
    pub(super) order: Vec<u64>,
    pub(super) rows: Vec<SavedRow>,
    pub(super) groups: Vec<Group>,
}

/// A selectable row, and the place of its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SavedRow {
    pub(super) row: u64,
    pub(super) length: u32,
    pub(super) weight: f32,
    pub(super) inserted: u64,
    pub(super) sampled: u64,
    pub(super) group: u32,
    pub(super) place: u32,
}

/// Rows that were written together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) file: u64,
    pub(super) rows: Vec<GroupRow>,
    /// One extent per column.
    pub(super) extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub(super) row: u64,
    pub(super) generation: u64,
    pub(super) length: u64,
}

/// A range of bytes in a data file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let columns = self.schema.columns().len();
        let schema = encode_schema(&self.schema, &vec![Tier::Host; columns], &vec![0; columns]);
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        let numbers =
            [self.capacity, self.schema.max_steps(), self.rank, self.ranks, self.number, self.committed];
        put(&mut out, numbers);
        put(&mut out, [self.random, self.removal, self.max_selectable, self.max_times_sampled]);
        for count in [columns, schema.len()] {
            out.extend_from_slice(&u32::try_from(count).expect("schemas are small").to_le_bytes());
        }
        put(&mut out, [self.free.len(), self.order.len(), self.rows.len(), self.groups.len()].map(wide));
        put(&mut out, [self.nonce]);
        out.extend_from_slice(&schema);
        [&self.generations, &self.free, &self.order]
            .into_iter()
            .for_each(|numbers| put(&mut out, numbers.iter().copied()));
        self.rows.iter().for_each(|row| row.encode(&mut out));
        self.groups.iter().for_each(|group| group.encode(&mut out));
        let length = wide(out.len());
        out[COVERED..COVERED + 8].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c(&out[COVERED..]);
        out[12..COVERED].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a manifest and checks its consistency. Errors refer to its file as `what`.
    pub(super) fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let mut from = Cursor::new(bytes, what);
        check_frame(&mut from, bytes, what)?;
        let [capacity, max_steps, rank, ranks, number, committed] = from.words()?;
        let [random, removal, max_selectable, max_times_sampled] = from.words()?;
        let (columns, schema_bytes) = (from.u32()?, from.u32()?);
        let [free, order, rows, groups, nonce] = from.words()?;
        let encoded = from.take(narrow(u64::from(schema_bytes)))?;
        let (schema, ..) = decode_schema(encoded, narrow(u64::from(columns)), max_steps, what)?;
        let manifest = Self {
            generations: from.u64s(capacity)?,
            free: from.u64s(free)?,
            order: from.u64s(order)?,
            rows: (0..rows).map(|_| SavedRow::decode(&mut from)).collect::<Result<_>>()?,
            groups: (0..groups)
                .map(|_| Group::decode(&mut from, schema.columns().len()))
                .collect::<Result<_>>()?,
            schema,
            capacity,
            rank,
            ranks,
            number,
            committed,
            random,
            removal,
            max_selectable,
            max_times_sampled,
            nonce,
        };
        from.finish("its last group")?;
        Removal::from_number(removal, max_times_sampled)
            .map_err(|why| Error::corrupt(format!("{what} has {why}")))?;
        manifest.check().map_err(|why| Error::corrupt(format!("{what} contradicts itself: {why}")))?;
        Ok(manifest)
    }

    /// Checks that every row is either free or selectable, exactly once, and that every selectable row has its bytes.
    fn check(&self) -> Result<(), String> {
        let mut seen = vec![false; self.generations.len()];
        for row in self.free.iter().copied().chain(self.rows.iter().map(|row| row.row)) {
            let Some(seen) = seen.get_mut(narrow(row)) else {
                return Err(format!("row {row} of {}", self.capacity));
            };
            if std::mem::replace(seen, true) {
                return Err(format!("row {row} occurs twice"));
            }
        }
        if let Some(row) = seen.iter().position(|seen| !seen) {
            return Err(format!("row {row} is neither free nor selectable"));
        }
        if let Some(row) = self.generations.iter().position(|&generation| generation > MAX_GENERATION) {
            return Err(format!("the generation of row {row} has more than 56 bits"));
        }
        self.rows.iter().try_for_each(|row| self.check_row(row))?;
        self.check_order()?;
        self.groups.iter().enumerate().try_for_each(|(number, group)| self.check_group(number, group))
    }

    fn check_row(&self, saved: &SavedRow) -> Result<(), String> {
        let row = saved.row;
        let found =
            self.groups.get(saved.group as usize).and_then(|group| group.rows.get(saved.place as usize));
        let expected =
            GroupRow { row, generation: self.generations[narrow(row)], length: u64::from(saved.length) };
        if found != Some(&expected) {
            return Err(format!("row {row} is not at place {} of group {}", saved.place, saved.group));
        }
        if !saved.weight.is_finite() || saved.weight < 0.0 {
            return Err(format!("row {row} has the weight {}", saved.weight));
        }
        if saved.length == 0 || u64::from(saved.length) > self.schema.max_steps() {
            return Err(format!("row {row} has {} steps of {}", saved.length, self.schema.max_steps()));
        }
        if saved.inserted >= self.committed {
            return Err(format!(
                "row {row} has the number {} of {} insertions",
                saved.inserted, self.committed
            ));
        }
        Ok(())
    }

    /// Checks that a random removal has all selectable rows in its order, each once, and that other removals have none.
    fn check_order(&self) -> Result<(), String> {
        if self.removal != Removal::RANDOM {
            let count = self.order.len();
            return if count == 0 {
                Ok(())
            } else {
                Err(format!(
                    "it lists an order of removal for {count} rows, but this kind of removal derives the order from the rows"
                ))
            };
        }
        let mut order = self.order.clone();
        let mut rows: Vec<u64> = self.rows.iter().map(|row| row.row).collect();
        order.sort_unstable();
        rows.sort_unstable();
        if order == rows {
            Ok(())
        } else {
            Err("the order of removal does not have exactly the selectable rows".to_owned())
        }
    }

    fn check_group(&self, number: usize, group: &Group) -> Result<(), String> {
        let mut steps = 0_u64;
        for row in &group.rows {
            if row.length > self.schema.max_steps() || row.row >= self.capacity {
                return Err(format!("group {number} has row {} of {} steps", row.row, row.length));
            }
            steps += row.length;
        }
        for (column, extent) in group.extents.iter().enumerate() {
            let expected = steps.checked_mul(self.schema.step_bytes(column));
            let fits = extent.offset.checked_add(extent.bytes).is_some_and(|end| end <= i64::MAX as u64);
            if expected != Some(extent.bytes) || !fits {
                return Err(format!(
                    "column {column} of group {number} has {} bytes for {steps} steps",
                    extent.bytes
                ));
            }
        }
        Ok(())
    }
}

/// Checks the header and the checksum.
fn check_frame(from: &mut Cursor<'_>, bytes: &[u8], what: &str) -> Result<()> {
    let magic = from.take(8)?;
    if magic != MAGIC {
        return Err(Error::corrupt(format!(
            "{what} is not a checkpoint of a store: it starts with {magic:02x?}"
        )));
    }
    let version = from.u32()?;
    if version != VERSION {
        return Err(Error::corrupt(format!(
            "{what} has version {version}; this program supports version {VERSION}"
        )));
    }
    let crc = from.u32()?;
    let length = from.u64()?;
    if length != wide(bytes.len()) {
        return Err(Error::corrupt(format!(
            "{what} has {} bytes, but its header says {length}",
            bytes.len()
        )));
    }
    let found = crc32c::crc32c(&bytes[COVERED..]);
    if found != crc {
        return Err(Error::corrupt(format!("{what} has crc {found:08x}, but its header says {crc:08x}")));
    }
    Ok(())
}

impl SavedRow {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.row.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.weight.to_le_bytes());
        put(out, [self.inserted, self.sampled]);
        out.extend_from_slice(&self.group.to_le_bytes());
        out.extend_from_slice(&self.place.to_le_bytes());
    }

    fn decode(from: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            row: from.u64()?,
            length: from.u32()?,
            weight: from.f32()?,
            inserted: from.u64()?,
            sampled: from.u64()?,
            group: from.u32()?,
            place: from.u32()?,
        })
    }
}

impl Group {
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, [self.file, wide(self.rows.len())]);
        self.rows.iter().for_each(|row| put(out, [row.row, row.generation, row.length]));
        for extent in &self.extents {
            put(out, [extent.offset, extent.bytes]);
            out.extend_from_slice(&extent.crc.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
    }

    fn decode(from: &mut Cursor<'_>, columns: usize) -> Result<Self> {
        let [file, rows] = from.words()?;
        let row = |from: &mut Cursor<'_>| {
            from.words().map(|[row, generation, length]| GroupRow { row, generation, length })
        };
        let rows = (0..rows).map(|_| row(from)).collect::<Result<_>>()?;
        let extent = |from: &mut Cursor<'_>| {
            let [offset, bytes] = from.words()?;
            let crc = from.u32()?;
            from.u32()?;
            Ok(Extent { offset, bytes, crc })
        };
        let extents = (0..columns).map(|_| extent(from)).collect::<Result<_>>()?;
        Ok(Self { file, rows, extents })
    }

    /// Returns the total number of bytes in the group's extents.
    pub(super) fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;
    use proptest::prelude::*;
    use relive_tensor::DType;

    fn manifest() -> Manifest {
        let schema =
            Schema::new(5, vec![Column::new("a", DType::UInt8, &[2]), Column::new("b", DType::Int8, &[])]);
        let extents =
            vec![Extent { offset: 4096, bytes: 10, crc: 1 }, Extent { offset: 8192, bytes: 5, crc: 2 }];
        let rows =
            [(0, 4, 3), (2, 9, 2)].map(|(row, generation, length)| GroupRow { row, generation, length });
        let saved = |row, length, place| SavedRow {
            row,
            length,
            weight: 0.5,
            inserted: 1,
            sampled: 2,
            group: 0,
            place,
        };
        Manifest {
            schema: schema.unwrap(),
            capacity: 3,
            rank: 0,
            ranks: 1,
            number: 7,
            committed: 20,
            random: 99,
            removal: Removal::RANDOM,
            max_selectable: u64::MAX,
            max_times_sampled: 0,
            nonce: 1234,
            generations: vec![4, 0, 9],
            free: vec![1],
            order: vec![2, 0],
            rows: vec![saved(0, 3, 0), saved(2, 2, 1)],
            groups: vec![Group { file: 7, rows: rows.to_vec(), extents }],
        }
    }

    #[test]
    fn a_manifest_round_trips() {
        assert_eq!(Manifest::decode(&manifest().encode(), "it").unwrap(), manifest());
    }

    #[test]
    fn inconsistent_manifests_are_refused() {
        type Change = fn(&mut Manifest);
        let changes: [(Change, &str); 10] = [
            (|m| m.free[0] = 3, "row 3 of 3"),
            (|m| m.free[0] = 0, "row 0 occurs twice"),
            (|m| m.free.clear(), "row 1 is neither"),
            (|m| m.generations[0] = 5, "row 0 is not at place 0"),
            (|m| m.rows[0].weight = f32::NAN, "weight NaN"),
            (|m| m.rows[0].inserted = 20, "number 20 of 20"),
            (|m| m.order[0] = 1, "order of removal"),
            (|m| m.removal = 77, "it has the unknown removal strategy 77"),
            (|m| m.groups[0].extents[0].bytes = 9, "9 bytes for 5 steps"),
            (|m| m.groups[0].extents[0].offset = u64::MAX, "10 bytes for 5 steps"),
        ];
        for (change, expected) in changes {
            let mut manifest = manifest();
            change(&mut manifest);
            let error = Manifest::decode(&manifest.encode(), "it").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_found(at in any::<prop::sample::Index>(), bit in 0_u8..8, cut in any::<prop::sample::Index>()) {
            let mut bytes = manifest().encode();
            bytes.truncate(bytes.len() - cut.index(bytes.len()));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Manifest::decode(&bytes, "it").is_err());
        }
    }
}
