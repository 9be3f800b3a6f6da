//! How a structured writer behaves.

use relive_tensor::Codec;

#[cfg(doc)]
use crate::TrajectoryWriterOptions;

/// Options of a [`StructuredWriter`](crate::StructuredWriter).
#[derive(Debug, Clone, Copy)]
pub struct StructuredWriterOptions {
    pub(crate) codec: Option<Codec>,
    pub(crate) check_names: bool,
}

impl Default for StructuredWriterOptions {
    fn default() -> StructuredWriterOptions {
        StructuredWriterOptions { codec: None, check_names: true }
    }
}

impl StructuredWriterOptions {
    /// As [`TrajectoryWriterOptions::check_names`], for the names of patterns. Items are made before the server has answered; they are
    /// held back until it has, and if the names differ, none is sent and the writer fails.
    #[must_use]
    pub fn check_names(mut self, check: bool) -> StructuredWriterOptions {
        self.check_names = check;
        self
    }

    /// As [`TrajectoryWriterOptions::codec`].
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> StructuredWriterOptions {
        self.codec = Some(codec);
        self
    }
}
