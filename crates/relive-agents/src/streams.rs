//! Random streams for a policy's rows.

use relive_nn::{Key, Stream};
use relive_rl::{Result, RlError};

/// One stream for each row, so that a row does not depend on the other rows.
#[derive(Debug)]
pub struct Streams(Vec<Stream>);

impl Streams {
    /// Creates the streams for the keys of a [context](relive_rl::PolicyContext).
    #[must_use]
    pub fn new(keys: &[Key]) -> Streams {
        Streams(keys.iter().map(|key| key.stream()).collect())
    }

    /// Returns the streams, row by row.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.0.iter_mut()
    }

    /// Returns the positions of the streams.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.0.iter().flat_map(Stream::to_bytes).collect()
    }

    /// Continues from saved positions of the same number of streams.
    ///
    /// # Errors
    /// [`State`](RlError::State) if the bytes do not encode positions.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let refused = |reason: String| RlError::State { what: "a policy", reason };
        let each = bytes.len() / self.0.len().max(1);
        if each == 0 || !bytes.len().is_multiple_of(each) {
            return Err(refused(format!("{} bytes for {} rows", bytes.len(), self.0.len())));
        }
        for (stream, bytes) in self.0.iter_mut().zip(bytes.chunks_exact(each)) {
            *stream = Stream::from_bytes(bytes).map_err(|error| refused(error.to_string()))?;
        }
        Ok(())
    }
}
