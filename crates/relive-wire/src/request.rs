//! Checks the size of a decoded request before it is decoded.
//!
//! An empty item takes two bytes on the wire and a hundred in memory. Large requests are therefore counted in place,
//! before memory is allocated for them.

use std::ops::Range;

use crate::WireError;
use crate::limits::{
    MAX_DESCRIPTION_BYTES, MAX_KEYS_PER_REQUEST, MAX_RUNS_PER_REQUEST, UNCOUNTED_REQUEST_BYTES,
};
use crate::reader::{Field, Fields, MalformedMessage};

/// Checks an encoded `InsertStreamRequest` before it is decoded.
///
/// # Errors
/// If the request's decoded items, columns, slices, chunks and keys would exceed [`MAX_DESCRIPTION_BYTES`], or the
/// message is malformed.
pub fn check_insert(message: &[u8]) -> Result<(), WireError> {
    if message.len() <= UNCOUNTED_REQUEST_BYTES {
        return Ok(());
    }
    expect_little(description_bytes(message).map_err(malformed)?)
}

/// Checks an encoded `InsertItems` before it is decoded.
///
/// # Errors
/// The errors of [`check_insert`]. An error is also returned if the request has more than [`MAX_RUNS_PER_REQUEST`]
/// runs.
pub fn check_items(message: &[u8]) -> Result<(), WireError> {
    let Counted { bytes, runs } = count_runs(message).map_err(malformed)?;
    if runs > MAX_RUNS_PER_REQUEST {
        let reason = format!("it has {runs} runs of items; the limit is {MAX_RUNS_PER_REQUEST}");
        return Err(WireError::Request { reason });
    }
    expect_little(bytes)
}

/// Checks an encoded `GetItemsRequest` before it is decoded. A key takes as little as one byte on the wire and eight in
/// memory.
///
/// # Errors
/// If the request has more than [`MAX_KEYS_PER_REQUEST`] keys, or the message is malformed.
pub fn check_keys(message: &[u8]) -> Result<(), WireError> {
    let keys = count_keys(message).map_err(malformed)?;
    if keys > MAX_KEYS_PER_REQUEST {
        let reason = format!("it has {keys} keys; the limit is {MAX_KEYS_PER_REQUEST}; send fewer at once");
        return Err(WireError::Request { reason });
    }
    Ok(())
}

fn count_keys(message: &[u8]) -> Result<usize, MalformedMessage> {
    let mut fields = Fields::new(message, 0..message.len());
    let mut keys = 0_usize;
    while let Some(field) = fields.next()? {
        keys += match field.bytes() {
            _ if field.number != 2 => 0,
            // The last byte of each key is below 0x80.
            Ok(packed) => message.get(packed).unwrap_or_default().iter().filter(|byte| **byte < 0x80).count(),
            Err(_) => 1,
        };
    }
    Ok(keys)
}

fn malformed(error: MalformedMessage) -> WireError {
    WireError::Record { reason: error.to_string() }
}

fn expect_little(bytes: usize) -> Result<(), WireError> {
    if bytes > MAX_DESCRIPTION_BYTES {
        let reason = format!(
            "its items, slices and keys would have {bytes} bytes after decoding; the limit is {MAX_DESCRIPTION_BYTES}; send fewer at once"
        );
        return Err(WireError::Request { reason });
    }
    Ok(())
}

/// Returns the memory that the decoded parts other than the payload take.
fn description_bytes(message: &[u8]) -> Result<usize, MalformedMessage> {
    let mut fields = Fields::new(message, 0..message.len());
    let mut total = 0_usize;
    while let Some(field) = fields.next()? {
        total = total.saturating_add(match field.number {
            1 => CHUNK_BYTES,
            2 => item_bytes(message, field.bytes()?)?,
            3 => key_bytes(&field),
            _ => 0,
        });
    }
    Ok(total)
}

/// The decoded size of a request with runs of items.
struct Counted {
    bytes: usize,
    runs: usize,
}

/// Counts a request with runs of items. Such a request has few fields at the top level, so even small requests are
/// counted.
fn count_runs(message: &[u8]) -> Result<Counted, MalformedMessage> {
    let mut fields = Fields::new(message, 0..message.len());
    let mut counted = Counted { bytes: 0, runs: 0 };
    while let Some(field) = fields.next()? {
        counted.bytes = counted.bytes.saturating_add(match field.number {
            1 => LIST_GROWTH * CHUNK_BYTES,
            2 => {
                counted.runs += 1;
                LIST_GROWTH * RUN_BYTES + field.bytes()?.len() * RUN_GROWTH
            }
            3 => LIST_GROWTH * field.bytes().map_or(KEY_BYTES, |packed| packed.len()),
            _ => 0,
        });
    }
    Ok(counted)
}

/// Returns the memory of an item. Current writers list no chunk keys in it, but any peer may.
fn item_bytes(message: &[u8], item: Range<usize>) -> Result<usize, MalformedMessage> {
    let mut fields = Fields::new(message, item);
    let mut total = ITEM_BYTES;
    while let Some(field) = fields.next()? {
        total = total.saturating_add(match field.number {
            3 => key_bytes(&field),
            8 => trajectory_bytes(message, field.bytes()?)?,
            _ => 0,
        });
    }
    Ok(total)
}

/// Returns the memory of the columns and slices of a trajectory.
fn trajectory_bytes(message: &[u8], trajectory: Range<usize>) -> Result<usize, MalformedMessage> {
    let mut total = 0_usize;
    for column in nested(message, trajectory, 1)? {
        let slices = nested(message, column, 1)?.len();
        total = total.saturating_add(COLUMN_BYTES + slices * SLICE_BYTES);
    }
    Ok(total)
}

/// Returns the largest amount of memory that the keys in a field can take: one key, or a packed list in which each key
/// takes at least one byte.
fn key_bytes(field: &Field) -> usize {
    field.bytes().map_or(KEY_BYTES, |packed| packed.len().saturating_mul(KEY_BYTES))
}

/// Returns the ranges of the nested messages of field `number`.
fn nested(message: &[u8], range: Range<usize>, number: u64) -> Result<Vec<Range<usize>>, MalformedMessage> {
    let mut fields = Fields::new(message, range);
    let mut found = Vec::new();
    while let Some(field) = fields.next()? {
        if field.number == number {
            found.push(field.bytes()?);
        }
    }
    Ok(found)
}

const CHUNK_BYTES: usize = size_of::<bytes::Bytes>();
const ITEM_BYTES: usize = size_of::<crate::reverb::PrioritizedItem>();
const COLUMN_BYTES: usize = size_of::<crate::reverb::flat_trajectory::Column>();
const SLICE_BYTES: usize = size_of::<crate::reverb::flat_trajectory::ChunkSlice>();
const KEY_BYTES: usize = size_of::<u64>();
const RUN_BYTES: usize = size_of::<crate::v1::ItemRun>();

/// A growing list may allocate twice the memory that it needs.
const LIST_GROWTH: usize = 2;

/// One encoded byte of a run becomes at most one number of four bytes.
const RUN_GROWTH: usize = LIST_GROWTH * size_of::<u32>();

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` empty fields with the given number.
    fn empty_fields(number: u8, count: usize) -> Vec<u8> {
        [number << 3 | 2, 0].repeat(count)
    }

    #[test]
    fn too_many_small_messages_are_refused() {
        let items = check_insert(&empty_fields(2, 4 << 20)).unwrap_err().to_string();
        assert!(items.contains("send fewer at once"), "{items}");
        let columns = empty_fields(1, 12 << 20);
        let mut item = vec![8 << 3 | 2];
        prost::encoding::encode_varint(columns.len() as u64, &mut item);
        item.extend_from_slice(&columns);
        let mut request = vec![2 << 3 | 2];
        prost::encoding::encode_varint(item.len() as u64, &mut request);
        request.extend_from_slice(&item);
        assert!(check_insert(&request).is_err());
    }

    #[test]
    fn the_chunk_keys_of_an_item_count() {
        let insert_of = |item: &[u8]| {
            let mut request = vec![2 << 3 | 2];
            prost::encoding::encode_varint(item.len() as u64, &mut request);
            request.extend_from_slice(item);
            check_insert(&request)
        };
        let mut packed = vec![3 << 3 | 2];
        prost::encoding::encode_varint(40 << 20, &mut packed);
        packed.resize(packed.len() + (40 << 20), 1);
        let refused = insert_of(&packed).unwrap_err().to_string();
        assert!(refused.contains("send fewer at once"), "{refused}");
        assert!(insert_of(&[3 << 3, 1].repeat(40 << 20)).is_err(), "keys that are not packed");
        insert_of(&[3 << 3, 1].repeat(1 << 20)).expect("a million keys are below the limit");
    }

    #[test]
    fn too_many_small_runs_are_refused() {
        assert!(check_items(&empty_fields(1, 16 << 20)).is_err());
        let runs = check_items(&empty_fields(2, 70_000)).unwrap_err().to_string();
        assert!(runs.contains("70000 runs of items; the limit is 65536"), "{runs}");
        let mut request = vec![2 << 3 | 2];
        prost::encoding::encode_varint(40 << 20, &mut request);
        request.resize(request.len() + (40 << 20), 0);
        let refused = check_items(&request).unwrap_err().to_string();
        assert!(refused.contains("send fewer at once"), "{refused}");
    }

    #[test]
    fn too_many_keys_of_items_are_refused() {
        let request_of = |keys: &[u64]| {
            let request = crate::v1::GetItemsRequest { keys: keys.to_vec(), ..Default::default() };
            prost::Message::encode_to_vec(&request)
        };
        let text = check_keys(&request_of(&[1; MAX_KEYS_PER_REQUEST + 1])).unwrap_err().to_string();
        assert!(text.contains("it has 2097153 keys; the limit is 2097152"), "{text}");
        check_keys(&request_of(&[u64::MAX; 1_000])).expect("a large key is one key");
        check_keys(&request_of(&[300; MAX_KEYS_PER_REQUEST])).expect("a large key is one key");
        let unpacked = [2 << 3, 1].repeat(MAX_KEYS_PER_REQUEST + 1);
        assert!(check_keys(&unpacked).is_err());
    }

    #[test]
    fn payload_bytes_do_not_count_as_description() {
        let mut request = vec![1 << 3 | 2];
        prost::encoding::encode_varint(300 << 20, &mut request);
        request.resize(request.len() + (300 << 20), 7);
        check_insert(&request).expect("the size of a chunk is not limited here");
        check_items(&request).expect("the size of a chunk is not limited here");
    }
}
