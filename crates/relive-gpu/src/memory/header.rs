//! The header of a segment (`docs/gpu-store-format.md`).

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::layout::{Layout, SCHEMA_AT, Shape, Tier};
use crate::bytes::{Cursor, narrow, wide};
use crate::error::{Error, Result};
use crate::schema::{Column, MAX_COLUMNS, MAX_NAME_BYTES, MAX_RANK, Schema};

/// The first bytes of a segment.
pub(crate) const MAGIC: [u8; 8] = *b"RLVSTORE";
/// The version of the format.
pub(crate) const VERSION: u32 = 3;
/// The number of bytes of the fixed header.
pub(crate) const FIXED_BYTES: usize = 256;
/// The maximum length of a path on Linux.
const MAX_PATH_BYTES: usize = 4096;
/// The maximum size of a schema, in bytes.
const MAX_SCHEMA_BYTES: u64 = 16 << 20;

/// The contents of a segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) schema: Schema,
    pub(crate) shape: Shape,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) layout: Layout,
}

impl Header {
    /// Creates the header of a new segment.
    pub(crate) fn new(schema: Schema, shape: Shape, tiers: Vec<Tier>) -> Result<Self> {
        let nowhere = vec![0; tiers.len()];
        let schema_bytes = wide(encode_schema(&schema, &tiers, &nowhere).len());
        let layout = Layout::new(&schema, &shape, &tiers, schema_bytes)?;
        Ok(Self { schema, shape, tiers, layout })
    }

    /// Returns the fixed header, and the bytes of the schema.
    pub(crate) fn encode(&self) -> ([u8; FIXED_BYTES], Vec<u8>) {
        let offsets: Vec<u64> = self.layout.tables.iter().map(|table| table.offset).collect();
        let schema = encode_schema(&self.schema, &self.tiers, &offsets);
        let mut bytes = Vec::with_capacity(FIXED_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let Shape { capacity, readers, writers, rank, ranks, max_times_sampled } = self.shape;
        let layout = &self.layout;
        for number in [layout.segment_bytes, capacity, self.schema.max_steps(), layout.schema_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let columns = u32::try_from(self.schema.columns().len()).expect("at most 1,024");
        for number in [columns, readers, writers, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [rank, ranks, max_times_sampled].into_iter().chain(offsets_of(layout)) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(FIXED_BYTES, 0);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[16..]), &schema);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        (bytes.try_into().expect("resized to it"), schema)
    }

    /// Decodes the header of a segment and checks its consistency. Errors refer to the segment as `what`.
    pub(crate) fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, what);
        let magic = cursor.take(8)?;
        if magic != MAGIC {
            return Err(Error::corrupt(format!("{what} is not a store: it starts with {magic:02x?}")));
        }
        let version = cursor.u32()?;
        if version != VERSION {
            return Err(Error::corrupt(format!(
                "{what} has version {version} of the format; this program supports version {VERSION}"
            )));
        }
        let crc = cursor.u32()?;
        let segment_bytes = cursor.u64()?;
        let [capacity, max_steps, schema_bytes] = [cursor.u64()?, cursor.u64()?, cursor.u64()?];
        let [columns, readers, writers, _] = [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
        let [rank, ranks, max_times_sampled] = [cursor.u64()?, cursor.u64()?, cursor.u64()?];
        let shape = Shape { capacity, readers, writers, rank, ranks, max_times_sampled };
        let schema_bytes_at = narrow(SCHEMA_AT)..narrow(SCHEMA_AT + schema_bytes.min(MAX_SCHEMA_BYTES));
        let encoded = bytes.get(schema_bytes_at).ok_or_else(|| {
            Error::corrupt(format!("{what} is too short for its schema of {schema_bytes} bytes"))
        })?;
        let found = crc32c::crc32c_append(crc32c::crc32c(&bytes[16..FIXED_BYTES]), encoded);
        if found != crc {
            return Err(Error::corrupt(format!(
                "the header of {what} has crc {found:08x}, but it records {crc:08x}"
            )));
        }
        let (schema, tiers, _) = decode_schema(encoded, narrow(u64::from(columns)), max_steps, what)?;
        let header = Self::new(schema, shape, tiers)
            .map_err(|error| Error::corrupt(format!("the header of {what}: {error}")))?;
        header.check_layout(segment_bytes, &bytes[88..152], what)?;
        Ok(header)
    }

    /// Checks that the recorded offsets match those computed from the rest of the header.
    fn check_layout(&self, segment_bytes: u64, stored: &[u8], what: &str) -> Result<()> {
        let computed: Vec<u8> = offsets_of(&self.layout).into_iter().flat_map(u64::to_le_bytes).collect();
        if segment_bytes != self.layout.segment_bytes || stored != computed {
            return Err(Error::corrupt(format!(
                "{what} has {segment_bytes} bytes and offsets of a different layout; its schema needs {} bytes",
                self.layout.segment_bytes
            )));
        }
        Ok(())
    }
}

fn offsets_of(layout: &Layout) -> [u64; 8] {
    let Layout { claims, slots, states, weights, lengths, inserted, sampled, pins, .. } = *layout;
    [claims, slots, states, weights, lengths, inserted, sampled, pins]
}

/// Returns a schema's bytes, as in segments and checkpoints.
pub(crate) fn encode_schema(schema: &Schema, tiers: &[Tier], offsets: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ((column, tier), offset) in schema.columns().iter().zip(tiers).zip(offsets) {
        let path = match tier {
            Tier::Host => &[],
            Tier::File(path) => path.as_os_str().as_bytes(),
        };
        let dtype = column.dtype.name().as_bytes();
        let lengths = [column.shape.len(), column.name.len(), dtype.len(), path.len()];
        bytes.extend_from_slice(&u32::from(matches!(tier, Tier::File(_))).to_le_bytes());
        for length in lengths {
            bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&offset.to_le_bytes());
        column.shape.iter().for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        [column.name.as_bytes(), dtype, path].iter().for_each(|text| bytes.extend_from_slice(text));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Returns a schema from its bytes, with tiers and offsets.
pub(crate) fn decode_schema(
    bytes: &[u8],
    columns: usize,
    max_steps: u64,
    what: &str,
) -> Result<(Schema, Vec<Tier>, Vec<u64>)> {
    let what = format!("the schema of {what}");
    if columns > MAX_COLUMNS {
        return Err(Error::corrupt(format!("{what} has {columns} columns; the limit is {MAX_COLUMNS}")));
    }
    let mut cursor = Cursor::new(bytes, &what);
    let (mut found, mut tiers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..columns {
        let (column, tier, offset) = decode_column(&mut cursor, &what)?;
        found.push(column);
        tiers.push(tier);
        offsets.push(offset);
    }
    cursor.finish("its last column")?;
    let schema = Schema::new(max_steps, found).map_err(|error| Error::corrupt(format!("{what}: {error}")))?;
    Ok((schema, tiers, offsets))
}

fn decode_column(cursor: &mut Cursor<'_>, what: &str) -> Result<(Column, Tier, u64)> {
    let tier = cursor.u32()?;
    let [rank, name, dtype, path, _] = [(); 5].map(|()| cursor.u32().map(|n| narrow(u64::from(n))));
    let (rank, name, dtype, path) = (rank?, name?, dtype?, path?);
    let offset = cursor.u64()?;
    if rank > MAX_RANK || name > MAX_NAME_BYTES || dtype > MAX_NAME_BYTES || path > MAX_PATH_BYTES {
        return Err(Error::corrupt(format!(
            "{what} has a column with {rank} dimensions and texts of {name}, {dtype} and {path} bytes, which exceeds the limits"
        )));
    }
    let shape = cursor.u64s(wide(rank))?;
    let name = text(cursor.take(name)?, what)?;
    let dtype = text(cursor.take(dtype)?, what)?;
    let dtype = dtype.parse().map_err(|error| Error::corrupt(format!("{what}: {error}")))?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(cursor.take(path)?));
    cursor.take(cursor.position().next_multiple_of(8) - cursor.position())?;
    let tier = match tier {
        0 => Tier::Host,
        1 => Tier::File(path),
        other => {
            return Err(Error::corrupt(format!("{what}: column {name:?} has the unknown tier {other}")));
        }
    };
    Ok((Column { name, dtype, shape }, tier, offset))
}

fn text(bytes: &[u8], what: &str) -> Result<String> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::corrupt(format!("{what} has a text that is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use relive_tensor::DType;

    fn image(header: &Header) -> Vec<u8> {
        let (fixed, schema) = header.encode();
        let mut bytes = fixed.to_vec();
        bytes.resize(narrow(SCHEMA_AT), 0);
        bytes.extend_from_slice(&schema);
        bytes
    }

    fn header() -> Header {
        let columns = vec![
            Column::new("obs", DType::Float32, &[17]),
            Column::new("image", DType::UInt8, &[84, 84]),
            Column::new("r", DType::BFloat16, &[]),
        ];
        let shape = Shape { capacity: 1000, readers: 4, writers: 3, rank: 1, ranks: 2, max_times_sampled: 7 };
        let tiers = vec![Tier::Host, Tier::File("/tmp/image.column".into()), Tier::Host];
        Header::new(Schema::new(100, columns).unwrap(), shape, tiers).unwrap()
    }

    #[test]
    fn a_header_round_trips() {
        assert_eq!(Header::decode(&image(&header()), "it").unwrap(), header());
    }

    proptest! {
        /// Every significant byte is covered by the checksum, or checked on its own.
        #[test]
        fn damage_is_found(at in 0_usize..5000, bit in 0_u8..8) {
            let mut bytes = image(&header());
            let covered = FIXED_BYTES + bytes.len() - narrow(SCHEMA_AT);
            let at = at % covered;
            let at = if at < FIXED_BYTES { at } else { at - FIXED_BYTES + narrow(SCHEMA_AT) };
            bytes[at] ^= 1 << bit;
            prop_assert!(Header::decode(&bytes, "it").is_err(), "byte {at}");
        }

        #[test]
        fn decoding_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode_schema(&bytes, 2, 10, "it");
            let mut whole = image(&header());
            whole.truncate(bytes.len() * 13);
            prop_assert!(whole.len() >= image(&header()).len() || Header::decode(&whole, "it").is_err());
        }
    }
}
