//! A cursor over the fields of one encoded message, for messages that are inspected in place.

use std::ops::Range;

/// The reason why bytes do not form a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MalformedMessage {
    #[error("the message ends inside a field")]
    Truncated,
    #[error("a number does not fit 64 bits")]
    LongVarint,
    #[error("field {0} has the unknown wire type {1}")]
    WireType(u64, u8),
    #[error("field number {0} is out of range; field numbers are 1..={MAX_FIELD_NUMBER}")]
    FieldNumber(u64),
    #[error("field {0} has a different wire type than its declaration")]
    Mismatch(u64),
    #[error("field {0} is split into several parts")]
    Repeated(u64),
}

/// The largest field number in protobuf's encoding.
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// One field in the message.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: Value,
}

/// A field's value. Bytes are given as a range of the whole buffer.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Varint(u64),
    Fixed32,
    Fixed64(u64),
    Bytes(Range<usize>),
}

impl Field {
    pub(crate) fn varint(&self) -> Result<u64, MalformedMessage> {
        match self.value {
            Value::Varint(value) => Ok(value),
            Value::Fixed32 | Value::Fixed64(_) | Value::Bytes(_) => {
                Err(MalformedMessage::Mismatch(self.number))
            }
        }
    }

    pub(crate) fn double(&self) -> Result<f64, MalformedMessage> {
        match self.value {
            Value::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Value::Fixed32 | Value::Varint(_) | Value::Bytes(_) => {
                Err(MalformedMessage::Mismatch(self.number))
            }
        }
    }

    pub(crate) fn bytes(&self) -> Result<Range<usize>, MalformedMessage> {
        match &self.value {
            Value::Bytes(range) => Ok(range.clone()),
            Value::Fixed32 | Value::Fixed64(_) | Value::Varint(_) => {
                Err(MalformedMessage::Mismatch(self.number))
            }
        }
    }
}

/// Iterates over the fields of the message at `range` of `buffer`.
pub(crate) struct Fields<'a> {
    buffer: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(buffer: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(buffer.len());
        Self { buffer, at: range.start.min(end), end }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field>, MalformedMessage> {
        if self.at == self.end {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = key >> 3;
        if !(1..=MAX_FIELD_NUMBER).contains(&number) {
            return Err(MalformedMessage::FieldNumber(number));
        }
        let value = match (key & 7) as u8 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| MalformedMessage::Truncated)?;
                Value::Bytes(self.skip(length)?)
            }
            5 => self.skip(4).map(|_| Value::Fixed32)?,
            other => return Err(MalformedMessage::WireType(number, other)),
        };
        Ok(Some(Field { number, value }))
    }

    /// Returns the position of the next field.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn varint(&mut self) -> Result<u64, MalformedMessage> {
        let rest = self.buffer.get(self.at..self.end).unwrap_or_default();
        let (value, used) = varint(rest)?;
        self.at += used;
        Ok(value)
    }

    fn fixed64(&mut self) -> Result<u64, MalformedMessage> {
        let range = self.skip(8)?;
        let bytes = self.buffer.get(range).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).ok_or(MalformedMessage::Truncated)
    }

    fn skip(&mut self, length: usize) -> Result<Range<usize>, MalformedMessage> {
        let start = self.at;
        let end =
            start.checked_add(length).filter(|end| *end <= self.end).ok_or(MalformedMessage::Truncated)?;
        self.at = end;
        Ok(start..end)
    }
}

/// Parses the varint at the beginning of `bytes`. Returns the value and its number of bytes.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), MalformedMessage> {
    if let [byte @ 0..0x80, ..] = bytes {
        return Ok((u64::from(*byte), 1));
    }
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            // Only one bit of the tenth byte is used.
            return if i < 9 || *byte <= 1 { Ok((value, i + 1)) } else { Err(MalformedMessage::LongVarint) };
        }
    }
    Err(if bytes.len() < 10 { MalformedMessage::Truncated } else { MalformedMessage::LongVarint })
}

/// Converts a varint's value to an int32, by keeping the low 32 bits as protobuf does.
#[expect(
    clippy::cast_possible_truncation,
    reason = "protobuf defines int32 as the low 32 bits of the varint"
)]
pub(crate) fn int32(value: u64) -> i32 {
    value as i32
}

/// Converts a varint's value to an int64.
pub(crate) fn int64(value: u64) -> i64 {
    i64::from_le_bytes(value.to_le_bytes())
}
