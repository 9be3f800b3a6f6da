//! The contents of the frames between a store and its readers on other machines (`docs/protocol.md`).

use crate::bytes::{Cursor, narrow, put, wide};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Tier;
use crate::memory::header::{decode_schema, encode_schema};
use crate::schema::Schema;

/// The first bytes of a connection; the version follows as a u32.
pub(crate) const MAGIC: [u8; 8] = *b"RLVROWS\n";
/// The version of the protocol.
pub(crate) const VERSION: u32 = 1;
/// The number of bytes of magic and version.
pub(crate) const GREETING_BYTES: usize = 12;
/// The maximum size of a request's head in bytes: 1,024 windows take 24 KiB.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The maximum size of a request's body in bytes: 2.7 million rows.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 << 20;
/// The maximum number of bytes of rows in one answer; a client splits larger requests. A frame has at most 4 GiB.
pub(crate) const MAX_ANSWER_BYTES: u64 = 1 << 30;
/// The maximum number of windows of rows in one answer. Each window takes some work, so a client splits larger
/// requests, and the server serves other clients between these requests.
pub(crate) const MAX_ANSWER_PIECES: usize = 1 << 20;
/// Represents the generation of a trajectory that does not exist.
pub(crate) const GONE: u64 = u64::MAX;
/// The number of encoded bytes of a pinned row.
const ROW_BYTES: usize = 40;
/// The number of encoded bytes of a requested row.
const WANTED_BYTES: usize = 24;

/// A store's description of itself, sent at the start of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) schema: Schema,
    pub(crate) capacity: u64,
    pub(crate) rank: u64,
    pub(crate) ranks: u64,
}

impl Described {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let count = self.schema.columns().len();
        let mut bytes = Vec::new();
        put(&mut bytes, [self.capacity, self.schema.max_steps(), self.rank, self.ranks, wide(count)]);
        bytes.extend(encode_schema(&self.schema, &vec![Tier::Host; count], &vec![0; count]));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, what);
        let [capacity, max_steps, rank, ranks, count] = cursor.words()?;
        let columns = usize::try_from(count).unwrap_or(usize::MAX);
        let encoded = cursor.take(cursor.left())?;
        let (schema, _, _) = decode_schema(encoded, columns, max_steps, what)?;
        Ok(Self { schema, capacity, rank, ranks })
    }
}

/// The head of a pin request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinHead {
    /// The client's name for these pins.
    pub(crate) lease: u64,
    /// Whether the pins count as samples.
    pub(crate) is_sample: bool,
}

impl PinHead {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.lease, u64::from(self.is_sample)].iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, what);
        Ok(Self { lease: cursor.u64()?, is_sample: cursor.u64()? != 0 })
    }
}

/// A trajectory that a store has pinned for a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PinnedRowInfo {
    pub(crate) generation: u64,
    pub(crate) length: u64,
    pub(crate) inserted: u64,
    pub(crate) sampled: u64,
    pub(crate) weight: f32,
}

impl PinnedRowInfo {
    pub(crate) const NONE: Self = Self { generation: GONE, length: 0, inserted: 0, sampled: 0, weight: 0.0 };

    pub(crate) fn encode_all(rows: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES);
        for row in rows {
            let weight = u64::from(row.weight.to_bits());
            put(&mut bytes, [row.generation, row.length, row.inserted, row.sampled, weight]);
        }
        bytes
    }

    /// Decodes as many rows as were requested.
    pub(crate) fn decode_all(bytes: &[u8], count: usize, what: &str) -> Result<Vec<Self>> {
        expect_bytes(bytes.len(), count.saturating_mul(ROW_BYTES), what)?;
        let mut cursor = Cursor::new(bytes, what);
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let [generation, length, inserted, sampled, weight] = cursor.words()?;
            let weight = f32::from_bits(u32::try_from(weight).unwrap_or(f32::NAN.to_bits()));
            rows.push(Self { generation, length, inserted, sampled, weight });
        }
        Ok(rows)
    }
}

/// The steps of a column that a request covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowRequest {
    pub(crate) column: usize,
    pub(crate) offset: i64,
    pub(crate) length: u64,
}

impl WindowRequest {
    pub(crate) fn encode_all(windows: &[Self]) -> Vec<u8> {
        let mut bytes = wide(windows.len()).to_le_bytes().to_vec();
        for window in windows {
            put(&mut bytes, [wide(window.column), window.offset.cast_unsigned(), window.length]);
        }
        bytes
    }

    pub(crate) fn decode_all(bytes: &[u8], columns: usize, what: &str) -> Result<Vec<Self>> {
        let mut cursor = Cursor::new(bytes, what);
        let count = cursor.u64()?;
        let mut windows = Vec::new();
        for _ in 0..count {
            let [column, offset, length] = cursor.words()?;
            if column >= wide(columns) {
                return Err(Error::invalid(format!("{what} requests column {column} of {columns}")));
            }
            windows.push(Self { column: narrow(column), offset: offset.cast_signed(), length });
        }
        Ok(windows)
    }
}

/// A row with the steps that a request covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowRequest {
    pub(crate) index: u64,
    pub(crate) generation: u64,
    pub(crate) step: u64,
}

impl RowRequest {
    pub(crate) fn encode_all(rows: &[Self]) -> Vec<u8> {
        let numbers = rows.iter().flat_map(|row| [row.index, row.generation, row.step]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn decode_all(bytes: &[u8], what: &str) -> Result<Vec<Self>> {
        expect_bytes(bytes.len(), bytes.len() / WANTED_BYTES * WANTED_BYTES, what)?;
        let numbers = u64s(bytes, what)?;
        let (rows, _) = numbers.as_chunks();
        Ok(rows.iter().map(|&[index, generation, step]| Self { index, generation, step }).collect())
    }
}

/// Decodes consecutive numbers.
pub(crate) fn u64s(bytes: &[u8], what: &str) -> Result<Vec<u64>> {
    expect_bytes(bytes.len(), bytes.len() / size_of::<u64>() * size_of::<u64>(), what)?;
    Cursor::new(bytes, what).u64s(wide(bytes.len() / size_of::<u64>()))
}

/// # Errors
/// The number of bytes differs from the expected one.
pub(crate) fn expect_bytes(found: usize, expected: usize, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} has {found} bytes, not {expected}")))
}

/// The kinds of errors, encoded as their positions in this list.
const KINDS: [ErrorKind; 5] = [
    ErrorKind::InvalidArgument,
    ErrorKind::NotFound,
    ErrorKind::Unavailable,
    ErrorKind::Corrupt,
    ErrorKind::System,
];

/// Returns the head of a refusal.
pub(crate) fn encode_error(error: &Error) -> Vec<u8> {
    let kind = KINDS.iter().position(|&kind| kind == error.kind()).unwrap_or(KINDS.len() - 1);
    let mut bytes = wide(kind).to_le_bytes().to_vec();
    bytes.extend_from_slice(error.to_string().as_bytes());
    bytes
}

/// Returns the error that the store `what` reported.
pub(crate) fn decode_error(bytes: &[u8], what: &str) -> Error {
    let mut cursor = Cursor::new(bytes, what);
    let kind = cursor.u64().ok().and_then(|kind| KINDS.get(narrow(kind)).copied());
    let text = cursor.take(cursor.left()).unwrap_or_default();
    Error::new(kind.unwrap_or(ErrorKind::System), format!("{what}: {}", String::from_utf8_lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;
    use proptest::prelude::*;
    use relive_tensor::DType;

    #[test]
    fn peer_messages_round_trip() {
        let columns = vec![Column::new("o", DType::Float32, &[3]), Column::new("a", DType::Int64, &[])];
        let schema = Schema::new(7, columns).unwrap();
        let described = Described { schema, capacity: 5, rank: 1, ranks: 3 };
        assert_eq!(Described::decode(&described.encode(), "it").unwrap(), described);
        let head = PinHead { lease: 9, is_sample: true };
        assert_eq!(PinHead::decode(&head.encode(), "it").unwrap(), head);
        let row = PinnedRowInfo { generation: 1, length: 2, inserted: 3, sampled: 4, weight: 0.5 };
        assert_eq!(
            PinnedRowInfo::decode_all(&PinnedRowInfo::encode_all(&[row, PinnedRowInfo::NONE]), 2, "it")
                .unwrap(),
            [row, PinnedRowInfo::NONE]
        );
        let window = WindowRequest { column: 1, offset: -3, length: 4 };
        assert_eq!(
            WindowRequest::decode_all(&WindowRequest::encode_all(&[window]), 2, "it").unwrap(),
            [window]
        );
        let refused = WindowRequest::decode_all(&WindowRequest::encode_all(&[window]), 1, "it").unwrap_err();
        assert!(refused.to_string().contains("column 1 of 1"));
        let asked = RowRequest { index: 1, generation: 2, step: 3 };
        assert_eq!(
            RowRequest::decode_all(&RowRequest::encode_all(&[asked, asked]), "it").unwrap(),
            [asked; 2]
        );
        for kind in KINDS {
            let error = decode_error(&encode_error(&Error::new(kind, "why")), "rank 1");
            assert_eq!((error.kind(), error.to_string()), (kind, "rank 1: why".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn decoding_arbitrary_bytes_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            count in 0_usize..5,
        ) {
            let _ = Described::decode(&bytes, "it");
            let _ = PinHead::decode(&bytes, "it");
            let _ = PinnedRowInfo::decode_all(&bytes, count, "it");
            let _ = WindowRequest::decode_all(&bytes, 3, "it");
            let _ = RowRequest::decode_all(&bytes, "it");
            let _ = u64s(&bytes, "it");
            let _ = decode_error(&bytes, "it");
        }
    }
}
