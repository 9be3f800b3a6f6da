//! Options for a structured writer.

use relive_tensor::Codec;

use crate::trajectory::TrajectoryWriterOptions;

/// Options for a [`StructuredWriter`](crate::StructuredWriter).
#[derive(Debug, Clone, Copy)]
pub struct StructuredWriterOptions {
    /// The options of the inner writer, except for the number of steps, which follows from the patterns.
    pub(super) writer: TrajectoryWriterOptions,
    pub(super) check_names: bool,
    pub(super) validate_items: bool,
}

impl Default for StructuredWriterOptions {
    fn default() -> StructuredWriterOptions {
        StructuredWriterOptions {
            writer: TrajectoryWriterOptions::new(1).validate_items(false),
            check_names: true,
            validate_items: true,
        }
    }
}

impl StructuredWriterOptions {
    /// Like [`TrajectoryWriterOptions::check_names`], but applies to the names in patterns. Items are held back until
    /// the server has answered. If the names differ, no item is sent and the writer fails.
    #[must_use]
    pub fn check_names(mut self, check: bool) -> StructuredWriterOptions {
        self.check_names = check;
        self
    }

    /// Like [`TrajectoryWriterOptions::validate_items`]. The first append requests the signatures of all tables. Without
    /// validation, names are not checked either, and a condition on a column that is not one integer or bool never holds,
    /// as in dm-reverb; otherwise, such a column is an error.
    #[must_use]
    pub fn validate_items(mut self, validate: bool) -> StructuredWriterOptions {
        self.validate_items = validate;
        self
    }

    /// Like [`TrajectoryWriterOptions::max_pending_items`]: from this number of unconfirmed items on (at least 1),
    /// `append` waits.
    #[must_use]
    pub fn max_pending_items(mut self, items: usize) -> StructuredWriterOptions {
        self.writer = self.writer.max_pending_items(items);
        self
    }

    /// Like [`TrajectoryWriterOptions::max_pending_bytes`]: from this number of unconfirmed encoded bytes on, `append`
    /// waits.
    #[must_use]
    pub fn max_pending_bytes(mut self, bytes: usize) -> StructuredWriterOptions {
        self.writer = self.writer.max_pending_bytes(bytes);
        self
    }

    /// Like [`TrajectoryWriterOptions::codec`].
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> StructuredWriterOptions {
        self.writer = self.writer.codec(codec);
        self
    }
}
