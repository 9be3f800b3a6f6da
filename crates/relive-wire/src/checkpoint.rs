//! Records of dm-reverb's checkpoints: tables, items and chunks.
//!
//! Checkpoints from 2020 may contain two forms that were later dropped: chunks that have their tensors in the message
//! itself (`deprecated_data`), and items that have chunks and a range of rows instead of a trajectory
//! (`deprecated_chunk_keys`, `deprecated_sequence_range`). Both forms can be read; neither is written.

use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use relive_table::{ItemData, StoredItem, TableConfig, TableCounters, TableSnapshot, Timestamp};
use relive_tensor::{Chunk, Codec, CodecSet, Slice, Trajectory, TrajectoryBuilder};

use crate::item::{self, flat_trajectory};
use crate::reader::{Field, Fields, MalformedMessage};
use crate::reverb::{PrioritizedItem, PriorityTableCheckpoint, RateLimiterCheckpoint, SliceRange};
use crate::{WireError, chunk, signature, table};

/// Returns a table's record without its items.
#[must_use]
pub fn table_to_wire(snapshot: &TableSnapshot) -> PriorityTableCheckpoint {
    let (config, counters) = (&snapshot.config, &snapshot.counters);
    let limiter = &config.rate_limiter;
    PriorityTableCheckpoint {
        table_name: config.name.clone(),
        deprecated_items: Vec::new(),
        rate_limiter: Some(RateLimiterCheckpoint {
            samples_per_insert: limiter.samples_per_insert,
            min_diff: limiter.min_diff,
            max_diff: limiter.max_diff,
            min_size_to_sample: limiter.min_size_to_sample,
            // dm-reverb expects no negative number.
            sample_count: counters.samples.max(0),
            insert_count: counters.inserts,
            delete_count: counters.deletes,
        }),
        sampler: Some(table::selector_to_wire(config.sampler)),
        remover: Some(table::selector_to_wire(config.remover)),
        max_size: i64::try_from(config.max_size).unwrap_or(i64::MAX),
        max_times_sampled: config.max_times_sampled,
        num_deleted_episodes: i64::try_from(counters.deleted_episodes).unwrap_or(i64::MAX),
        signature: config.signature.as_deref().map(signature::to_wire),
        num_unique_samples: i64::try_from(counters.unique_samples).unwrap_or(i64::MAX),
    }
}

/// Returns the rules and counters of a table's record.
///
/// # Errors
/// The errors of [`table::config_from_wire`]. An error is also returned if a count is negative.
pub fn table_from_wire(message: &PriorityTableCheckpoint) -> Result<(TableConfig, TableCounters), WireError> {
    let config = table::config_from_wire(message)?;
    let limiter = message.rate_limiter.unwrap_or_default();
    let count = |what: &str, count: i64| {
        u64::try_from(count).map_err(|_| WireError::Table {
            table: message.table_name.clone(),
            reason: format!("its {what} is negative ({count})"),
        })
    };
    count("sample_count", limiter.sample_count)?;
    let counters = TableCounters {
        inserts: limiter.insert_count,
        samples: limiter.sample_count,
        deletes: limiter.delete_count,
        deleted_episodes: count("num_deleted_episodes", message.num_deleted_episodes)?,
        unique_samples: count("num_unique_samples", message.num_unique_samples)?,
    };
    Ok((config, counters))
}

/// Returns an item's record. `key_of` returns the keys of the item's chunks in the checkpoint; they differ from the
/// chunks' own keys only if two chunks have the same key.
#[must_use]
pub fn item_to_wire(table: &str, item: &StoredItem, key_of: impl Fn(&Arc<Chunk>) -> u64) -> PrioritizedItem {
    let (seconds, nanos) = item.data.inserted_at.to_parts();
    let trajectory = &item.data.trajectory;
    let mut flat = flat_trajectory(trajectory);
    for (message, column) in flat.columns.iter_mut().zip(trajectory.columns()) {
        for (message, slice) in message.chunk_slices.iter_mut().zip(column.slices()) {
            message.chunk_key = column.chunk_of(&slice).map_or(message.chunk_key, &key_of);
        }
    }
    PrioritizedItem {
        key: item.data.key,
        table: table.to_owned(),
        priority: item.priority,
        times_sampled: item.times_sampled,
        inserted_at: Some(prost_types::Timestamp { seconds, nanos: i32::try_from(nanos).unwrap_or(0) }),
        flat_trajectory: Some(flat),
        ..PrioritizedItem::default()
    }
}

/// Returns the item of a record, at position `sequence` of its table. `chunk_of` finds its chunks.
///
/// # Errors
/// The record contains both forms of a trajectory, or a time that is out of range. Also returns the errors of
/// [`item::decode`].
pub fn item_from_wire(
    message: &PrioritizedItem,
    sequence: u64,
    chunk_of: impl Fn(u64) -> Option<Arc<Chunk>>,
) -> Result<StoredItem, WireError> {
    let key = message.key;
    let stored = |reason: String| WireError::StoredItem { item: key, reason };
    let time = message.inserted_at.unwrap_or_default();
    let inserted_at = u32::try_from(time.nanos)
        .ok()
        .and_then(|nanos| Timestamp::from_parts(time.seconds, nanos))
        .ok_or_else(|| stored(format!("inserted_at {}.{:09} is out of range", time.seconds, time.nanos)))?;
    let trajectory = match (&message.flat_trajectory, &message.deprecated_sequence_range) {
        (Some(_), Some(_)) => {
            return Err(stored("it has both flat_trajectory and deprecated_sequence_range".to_owned()));
        }
        (None, Some(range)) => old_trajectory(key, &message.deprecated_chunk_keys, range, chunk_of)?,
        (flat, None) => {
            let columns = flat.as_ref().map(|flat| flat.columns.as_slice()).unwrap_or_default();
            item::trajectory(key, columns, chunk_of)?
        }
    };
    let data = ItemData { key, sequence, inserted_at, trajectory };
    let (priority, times_sampled) = (message.priority, message.times_sampled);
    Ok(StoredItem { data: Arc::new(data), priority, times_sampled })
}

/// Returns the trajectory of an item in the old form: some rows of every column, starting at an offset in the first
/// chunk.
fn old_trajectory(
    item: u64,
    keys: &[u64],
    range: &SliceRange,
    chunk_of: impl Fn(u64) -> Option<Arc<Chunk>>,
) -> Result<Trajectory, WireError> {
    let find = |&chunk: &u64| chunk_of(chunk).ok_or(WireError::UnknownChunk { item, chunk });
    let chunks = keys.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let columns = chunks.first().map_or(0, |chunk| chunk.num_columns());
    let outside = || WireError::StoredItem {
        item,
        reason: format!(
            "its {} rows starting at row {} are outside of its {} chunks",
            range.length,
            range.offset,
            chunks.len()
        ),
    };
    let (offset, length) =
        u32::try_from(range.offset).ok().zip(u32::try_from(range.length).ok()).ok_or_else(outside)?;
    let mut builder = TrajectoryBuilder::new();
    for index in 0..columns {
        builder.begin_column(false);
        let (mut skip, mut left) = (offset, length);
        for chunk in &chunks {
            let rows = chunk.rows(index).ok_or_else(outside)?;
            let taken = rows.saturating_sub(skip).min(left);
            if taken > 0 {
                let (number, index) =
                    (builder.chunk(Arc::clone(chunk)), u32::try_from(index).unwrap_or(u32::MAX));
                builder.slice(Slice { chunk: number, offset: skip, length: taken, index });
            }
            skip = skip.saturating_sub(rows);
            left -= taken;
        }
        if left > 0 {
            return Err(outside());
        }
    }
    builder.build().map_err(|source| WireError::Trajectory { item, source })
}

/// Appends a chunk's record to `out`, under the key `key`.
///
/// Payloads are encoded for dm-reverb; a chunk with a codec that dm-reverb does not support is recoded.
///
/// # Errors
/// The chunk cannot be recoded.
pub fn put_chunk(chunk: &Chunk, key: u64, out: &mut Vec<u8>) -> Result<(), WireError> {
    if CodecSet::REVERB.includes(chunk.codecs()) {
        chunk::put(chunk, out);
    } else {
        chunk::put(&chunk.recoded(Codec::Snappy)?, out);
    }
    if key != chunk.key() {
        // Overrides the key in the message, because the last occurrence of a repeated field counts.
        encode_key(1, WireType::Varint, out);
        encode_varint(key, out);
    }
    Ok(())
}

/// Returns the chunk of a record, in its current or its old form.
///
/// # Errors
/// The record contains both forms, or [`chunk::decode`] fails.
pub fn chunk_from_wire(message: &[u8]) -> Result<Chunk, WireError> {
    match present_form(message)? {
        Some(message) => chunk::decode(&message),
        None => chunk::decode(message),
    }
}

/// Converts the record for an old chunk to the current form. Returns `None` if the record already has the current form.
fn present_form(message: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
    let malformed = |e: MalformedMessage| WireError::malformed(0, e);
    let is_old = |found: bool, number| found || number == DEPRECATED_DATA;
    if !fold_fields(message, false, |found, field, _| Ok(is_old(found, field.number))).map_err(malformed)? {
        return Ok(None);
    }
    let (mut rest, mut data, mut has_both) = (Vec::new(), Vec::new(), false);
    fold_fields(message, (), |(), field, whole| {
        if field.number == DEPRECATED_DATA {
            put_bytes(TENSORS, message.get(field.bytes()?).unwrap_or_default(), &mut data);
        } else {
            has_both |= field.number == u64::from(DATA) && !field.bytes()?.is_empty();
            rest.extend_from_slice(message.get(whole).unwrap_or_default());
        }
        Ok(())
    })
    .map_err(malformed)?;
    if has_both {
        let reason = "it has both data and deprecated_data".to_owned();
        return Err(WireError::MalformedChunk { key: 0, reason });
    }
    put_bytes(DATA, &data, &mut rest);
    Ok(Some(rest))
}

/// Field numbers of `ChunkData`, and of the tensors in `ChunkData.Data`.
const DEPRECATED_DATA: u64 = 3;
const DATA: u32 = 5;
const TENSORS: u32 = 1;

/// Iterates over the fields of a message. `act` also receives the range of the whole field.
fn fold_fields<T>(
    message: &[u8],
    mut folded: T,
    mut act: impl FnMut(T, &Field, Range<usize>) -> Result<T, MalformedMessage>,
) -> Result<T, MalformedMessage> {
    let mut fields = Fields::new(message, 0..message.len());
    let mut start = 0;
    while let Some(field) = fields.next()? {
        let end = fields.position();
        folded = act(folded, &field, start..end)?;
        start = end;
    }
    Ok(folded)
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Parses the record for a table.
///
/// # Errors
/// The bytes are not a record for a table.
pub fn read_table(message: &[u8]) -> Result<PriorityTableCheckpoint, WireError> {
    PriorityTableCheckpoint::decode(message).map_err(unreadable)
}

/// Parses the record for an item.
///
/// # Errors
/// The bytes are not a record for an item.
pub fn read_item(message: &[u8]) -> Result<PrioritizedItem, WireError> {
    PrioritizedItem::decode(message).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> WireError {
    WireError::Record { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reverb::FlatTrajectory;
    use relive_tensor::{SequenceRange, Tensor, encode_chunk};

    fn chunk(key: u64, rows: u32) -> Chunk {
        let range = SequenceRange { episode_id: 1, start: 0, end: 9, sparse: false };
        let values: Vec<i32> = (0..).take(rows as usize).collect();
        let column = Tensor::from_slice(&values, [rows]).unwrap();
        Chunk::new(encode_chunk(key, range, &[column], false, Codec::Raw).unwrap()).unwrap()
    }

    fn old_item(offset: i32, length: i32) -> PrioritizedItem {
        PrioritizedItem {
            key: 3,
            deprecated_chunk_keys: vec![1, 2],
            deprecated_sequence_range: Some(SliceRange { offset, length }),
            ..PrioritizedItem::default()
        }
    }

    fn read(message: &PrioritizedItem) -> Result<StoredItem, WireError> {
        let chunks = [Arc::new(chunk(1, 4)), Arc::new(chunk(2, 3))];
        item_from_wire(message, 0, |key| chunks.iter().find(|chunk| chunk.key() == key).cloned())
    }

    #[test]
    fn row_ranges_may_span_chunks() {
        let rows = |offset, length| {
            let columns = read(&old_item(offset, length)).unwrap().data.trajectory.decode().unwrap();
            columns[0].as_slice::<i32>().unwrap().to_vec()
        };
        assert_eq!(rows(0, 4), [0, 1, 2, 3]);
        assert_eq!(rows(2, 4), [2, 3, 0, 1]);
        assert_eq!(rows(5, 2), [1, 2]);
        assert_eq!(rows(0, 7), [0, 1, 2, 3, 0, 1, 2]);
    }

    #[test]
    fn ranges_outside_of_their_chunks_are_refused() {
        for (offset, length) in [(0, 8), (7, 1), (-1, 1), (0, -1), (i32::MAX, i32::MAX)] {
            let error = read(&old_item(offset, length)).unwrap_err().to_string();
            assert!(error.contains("are outside of its 2 chunks"), "{offset} {length}: {error}");
        }
        assert!(read(&old_item(0, 0)).is_err(), "no rows are no item");
        let unknown = PrioritizedItem { deprecated_chunk_keys: vec![9], ..old_item(0, 1) };
        assert!(read(&unknown).unwrap_err().to_string().contains("chunk 9"));
        let nothing = PrioritizedItem { deprecated_chunk_keys: vec![], ..old_item(0, 1) };
        assert!(read(&nothing).is_err());
    }

    #[test]
    fn both_forms_in_one_record_are_refused() {
        let both = PrioritizedItem { flat_trajectory: Some(FlatTrajectory::default()), ..old_item(0, 1) };
        assert!(read(&both).unwrap_err().to_string().contains("both flat_trajectory and"));
        let mut record = Vec::new();
        put_chunk(&chunk(1, 2), 1, &mut record).unwrap();
        assert_eq!(chunk_from_wire(&record).unwrap().rows(0), Some(2));
        put_bytes(3, b"", &mut record);
        assert!(chunk_from_wire(&record).unwrap_err().to_string().contains("both data and"));
    }

    #[test]
    fn times_out_of_range_and_invalid_records_are_refused() {
        for (seconds, nanos) in [(i64::MAX, 0), (0, -1)] {
            let inserted_at = Some(prost_types::Timestamp { seconds, nanos });
            let error = read(&PrioritizedItem { inserted_at, ..old_item(0, 1) }).unwrap_err();
            assert!(error.to_string().contains("inserted_at"), "{error}");
        }
        assert!(read_item(&[0xff]).is_err() && read_table(&[0xff]).is_err());
        let message = PriorityTableCheckpoint::default();
        assert!(table_from_wire(&message).is_err(), "a table must have a limiter");
    }

    #[test]
    fn the_number_of_samples_is_not_negative() {
        let counters = TableCounters { samples: -3, ..TableCounters::default() };
        let config = Arc::new(TableConfig::new("t"));
        let mut message =
            table_to_wire(&TableSnapshot { config, counters, items: Vec::new(), structure: None });
        assert_eq!(table_from_wire(&message).unwrap().1.samples, 0);
        message.rate_limiter.as_mut().unwrap().sample_count = -3;
        let refused = table_from_wire(&message).unwrap_err().to_string();
        assert!(refused.contains("sample_count is negative (-3)"), "{refused}");
    }

    #[test]
    fn a_chunk_can_be_written_under_another_key() {
        let mut record = Vec::new();
        put_chunk(&chunk(1, 2), u64::MAX, &mut record).unwrap();
        let read = chunk_from_wire(&record).unwrap();
        assert_eq!((read.key(), read.decode_column(0)), (u64::MAX, chunk(1, 2).decode_column(0)));
    }
}
