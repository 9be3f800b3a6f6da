//! The length of chunks.

use super::ChunkerError;

/// The number of steps in a chunk of a column.
///
/// ```
/// use relive_tensor::ChunkLength;
/// assert!(ChunkLength::constant(2, 4).is_ok());
/// let error = ChunkLength::constant(5, 4).unwrap_err();
/// assert_eq!(error.to_string(), "max_chunk_length must be in 1..=4 (num_keep_alive_refs), got 5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChunkLength {
    /// A constant length.
    Constant {
        /// The number of steps in a chunk, `1..=num_keep_alive_refs`.
        max_chunk_length: u32,
        /// The number of newest cells of the column to which items can refer, at least 1.
        num_keep_alive_refs: u32,
    },
    /// A length that is tuned while steps are written. Small chunks end where items end, so that items need not wait
    /// for further steps. If items are created at every step, the length with the lowest cost is chosen; see
    /// [`AutoTuner`](super::AutoTuner).
    AutoTuned {
        /// The number of newest cells of the column to which items can refer, at least 1; no chunk has more steps.
        num_keep_alive_refs: u32,
        /// The weight of the bytes sent per step of an item, relative to the bytes stored per step. Usually 1.
        throughput_weight: f64,
    },
}

impl ChunkLength {
    /// Creates a constant length of `max_chunk_length` steps.
    ///
    /// # Errors
    /// [`ChunkerError`] unless `1 <= max_chunk_length <= num_keep_alive_refs`.
    pub fn constant(max_chunk_length: u32, num_keep_alive_refs: u32) -> Result<Self, ChunkerError> {
        Self::Constant { max_chunk_length, num_keep_alive_refs }.validate()
    }

    /// Creates a length that is tuned while steps are written.
    ///
    /// # Errors
    /// [`ChunkerError`] if `num_keep_alive_refs` is 0, or if the weight is negative or not finite.
    pub fn auto_tuned(num_keep_alive_refs: u32, throughput_weight: f64) -> Result<Self, ChunkerError> {
        Self::AutoTuned { num_keep_alive_refs, throughput_weight }.validate()
    }

    /// Returns the number of newest cells of the column to which items can refer.
    #[must_use]
    pub fn num_keep_alive_refs(&self) -> u32 {
        match *self {
            Self::Constant { num_keep_alive_refs, .. } | Self::AutoTuned { num_keep_alive_refs, .. } => {
                num_keep_alive_refs
            }
        }
    }

    /// Returns `self` if its numbers are valid.
    ///
    /// # Errors
    /// [`ChunkerError`] in the same cases as for the constructors.
    pub fn validate(self) -> Result<Self, ChunkerError> {
        let num_keep_alive_refs = self.num_keep_alive_refs();
        if num_keep_alive_refs == 0 {
            return Err(ChunkerError::KeepAlive { num_keep_alive_refs });
        }
        match self {
            Self::Constant { max_chunk_length, .. }
                if !(1..=num_keep_alive_refs).contains(&max_chunk_length) =>
            {
                Err(ChunkerError::Length { max_chunk_length, num_keep_alive_refs })
            }
            Self::AutoTuned { throughput_weight, .. }
                if !throughput_weight.is_finite() || throughput_weight < 0.0 =>
            {
                Err(ChunkerError::Weight { throughput_weight })
            }
            Self::Constant { .. } | Self::AutoTuned { .. } => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_length_limits_match_the_spec() {
        assert!(ChunkLength::constant(1, 1).is_ok() && ChunkLength::constant(4, 4).is_ok());
        assert_eq!(ChunkLength::constant(0, 0), Err(ChunkerError::KeepAlive { num_keep_alive_refs: 0 }));
        let length = |max_chunk_length, num_keep_alive_refs| {
            Err(ChunkerError::Length { max_chunk_length, num_keep_alive_refs })
        };
        assert_eq!(ChunkLength::constant(0, 1), length(0, 1));
        assert_eq!(ChunkLength::constant(3, 2), length(3, 2));
        assert_eq!(ChunkLength::auto_tuned(0, 1.0), Err(ChunkerError::KeepAlive { num_keep_alive_refs: 0 }));
        assert!(ChunkLength::auto_tuned(1, 0.0).is_ok());
        for weight in [-1.0, f64::NAN, f64::INFINITY] {
            let error = ChunkLength::auto_tuned(1, weight).unwrap_err();
            assert!(matches!(error, ChunkerError::Weight { .. }), "{error}");
        }
    }
}
