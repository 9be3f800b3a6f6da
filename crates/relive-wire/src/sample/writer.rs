//! Appends protobuf fields to a buffer. Nested messages are written in place, and their length is filled in at the end,
//! so no message has to be measured in advance.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
}

impl Writer {
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push((value & 0x7f) as u8);
    }

    /// Writes the key of a field; `wire_type` 0 is a varint, 1 is eight bytes, 2 is length-delimited.
    pub(super) fn key(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    /// Writes an integer field; zero is the default and is omitted.
    pub(super) fn uint(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.key(number, 0);
            self.varint(value);
        }
    }

    /// Writes an int32 or int64 field; negative values take ten bytes.
    pub(super) fn int(&mut self, number: u32, value: i64) {
        self.uint(number, u64::from_le_bytes(value.to_le_bytes()));
    }

    pub(super) fn bool(&mut self, number: u32, value: bool) {
        self.uint(number, u64::from(value));
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        if value.to_bits() != 0 {
            self.key(number, 1);
            self.out.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(super) fn string(&mut self, number: u32, value: &str) {
        if !value.is_empty() {
            self.key(number, 2);
            self.varint(value.len() as u64);
            self.out.extend_from_slice(value.as_bytes());
        }
    }

    /// Writes a nested message; `body` writes its content.
    pub(super) fn message(&mut self, number: u32, body: impl FnOnce(&mut Self)) {
        self.key(number, 2);
        let start = self.out.len();
        self.out.push(0);
        body(self);
        self.close(start);
    }

    /// Fills in the length of the bytes after `start`. A length above 127 needs more than the one reserved byte, so the
    /// body is then moved.
    fn close(&mut self, start: usize) {
        let length = self.out.len() - start - 1;
        if let (Ok(byte @ 0..0x80), Some(slot)) = (u8::try_from(length), self.out.get_mut(start)) {
            *slot = byte;
            return;
        }
        let mut prefix = Self::default();
        prefix.varint(length as u64);
        self.out.splice(start..=start, prefix.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_nested_messages_use_minimal_varints() {
        for length in [0_usize, 1, 127, 128, 300, 16_383, 16_384, 70_000] {
            let mut writer = Writer::default();
            writer.message(1, |w| w.out.extend(std::iter::repeat_n(7, length)));
            let mut expected = Vec::new();
            prost::encoding::bytes::encode(1, &vec![7_u8; length], &mut expected);
            assert_eq!(writer.out, expected, "length {length}");
        }
    }
}
