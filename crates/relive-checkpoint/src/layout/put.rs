//! Writes the input for [`Cursor`](super::Cursor).

/// Appends numbers, texts and lists.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn put_i32(&mut self, value: i32) {
        self.put(&value.to_le_bytes());
    }

    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    fn put_f64(&mut self, value: f64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number of elements, or a length.
    fn put_count(&mut self, count: usize) {
        self.put_u32(u32::try_from(count).expect("a list in memory has fewer than 2^32 elements"));
    }

    fn put_sized(&mut self, bytes: &[u8]) {
        self.put_count(bytes.len());
        self.put(bytes);
    }

    fn put_text(&mut self, text: &str) {
        self.put_sized(text.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
