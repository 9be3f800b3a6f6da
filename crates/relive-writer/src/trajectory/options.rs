//! Options for a trajectory writer.

use relive_connection::{Error, Result};
use relive_tensor::{ChunkLength, Codec};

/// The weight of sent bytes relative to stored bytes when chunk lengths are tuned, as in dm-reverb.
const THROUGHPUT_WEIGHT: f64 = 1.0;

/// Options for a [`TrajectoryWriter`](crate::TrajectoryWriter).
///
/// | Option | Default | Unit |
/// |---|---|---|
/// | [`new`](Self::new): `num_keep_alive_refs` | required | steps per column |
/// | [`chunk_length`](Self::chunk_length) | tuned | steps |
/// | [`max_pending_items`](Self::max_pending_items) | 10,000 | items |
/// | [`max_pending_bytes`](Self::max_pending_bytes) | 256 Mi | encoded bytes |
/// | [`validate_items`](Self::validate_items), [`check_names`](Self::check_names) | yes | |
/// | [`delta_encoded`](Self::delta_encoded), [`signature_per_step`](Self::signature_per_step) | no | |
/// | [`codec`](Self::codec) | Snappy | |
///
/// # Example
///
/// ```
/// use relive_client::{Client, ErrorKind, Nest, Tensor, TrajectoryWriterOptions};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?);
/// let options = TrajectoryWriterOptions::new(2).chunk_length(1).max_pending_items(1_000);
/// let mut writer = client.trajectory_writer(options)?;
/// for reward in [0.0_f32, 0.5, 1.0] {
///     writer.append(&Nest::Leaf(Tensor::scalar(reward)))?;
/// }
/// let rewards = writer.history().column("")?;
/// assert!(rewards.slice(-2..).is_ok());
/// assert!(rewards.slice(-3..).is_err(), "the writer keeps two steps");
/// # writer.close_now();
///
/// let contradiction = TrajectoryWriterOptions::new(2).chunk_length(3);
/// let error = client.trajectory_writer(contradiction).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The function that creates the writer checks the options. It fails with `InvalidArgument` unless `1 <= chunk_length
/// <= num_keep_alive_refs` and `max_pending_items` is at least 1.
#[derive(Debug, Clone, Copy)]
pub struct TrajectoryWriterOptions {
    pub(crate) num_keep_alive_refs: u32,
    pub(crate) chunk_length: Option<u32>,
    pub(crate) max_pending_items: usize,
    pub(crate) max_pending_bytes: usize,
    pub(crate) validate_items: bool,
    pub(crate) check_names: bool,
    pub(crate) delta_encoded: bool,
    pub(crate) signature_per_step: bool,
    pub(crate) codec: Option<Codec>,
}

impl TrajectoryWriterOptions {
    /// The default of [`max_pending_items`](Self::max_pending_items).
    pub const DEFAULT_MAX_PENDING_ITEMS: usize = 10_000;

    /// The default of [`max_pending_bytes`](Self::max_pending_bytes): 256 MiB.
    pub const DEFAULT_MAX_PENDING_BYTES: usize = 256 << 20;

    /// Creates options for a writer that keeps the newest `num_keep_alive_refs` steps (at least 1) of every column for
    /// items to refer to.
    pub fn new(num_keep_alive_refs: u32) -> TrajectoryWriterOptions {
        TrajectoryWriterOptions {
            num_keep_alive_refs,
            chunk_length: None,
            max_pending_items: Self::DEFAULT_MAX_PENDING_ITEMS,
            max_pending_bytes: Self::DEFAULT_MAX_PENDING_BYTES,
            validate_items: true,
            check_names: true,
            delta_encoded: false,
            signature_per_step: false,
            codec: None,
        }
    }

    /// Sets the number of steps in a chunk, from 1 to `num_keep_alive_refs`. By default, the writer tunes it to the
    /// items.
    #[must_use]
    pub fn chunk_length(mut self, steps: u32) -> TrajectoryWriterOptions {
        self.chunk_length = Some(steps);
        self
    }

    /// Sets how many items may be unconfirmed (at least 1). Beyond this limit, `create_item` waits.
    #[must_use]
    pub fn max_pending_items(mut self, items: usize) -> TrajectoryWriterOptions {
        self.max_pending_items = items;
        self
    }

    /// Sets how many encoded bytes may be unconfirmed. Beyond this limit, `create_item` waits. A single item may be
    /// larger.
    #[must_use]
    pub fn max_pending_bytes(mut self, bytes: usize) -> TrajectoryWriterOptions {
        self.max_pending_bytes = bytes;
        self
    }

    /// Sets whether items are checked against the signature of their table before they are sent. The client requests
    /// the signature once per table.
    #[must_use]
    pub fn validate_items(mut self, validate: bool) -> TrajectoryWriterOptions {
        self.validate_items = validate;
        self
    }

    /// Sets whether [checked](Self::validate_items) items must also have their table's column names: the names in its
    /// signature or, without a signature, the names that its first writer used.
    ///
    /// An item from a plain list of columns has no names; its columns are identified by their order. If names are not
    /// checked, readers receive the columns under the table's names, regardless of the writer's own names.
    #[must_use]
    pub fn check_names(mut self, check: bool) -> TrajectoryWriterOptions {
        self.check_names = check;
        self
    }

    /// Sets whether integers are stored as differences between steps before compression, which reduces the size of
    /// slowly changing integers.
    #[must_use]
    pub fn delta_encoded(mut self, delta_encoded: bool) -> TrajectoryWriterOptions {
        self.delta_encoded = delta_encoded;
        self
    }

    /// Sets whether items may also match a signature that describes each of their steps instead of the whole item.
    /// Tables have such signatures if their readers split items into steps.
    #[must_use]
    pub fn signature_per_step(mut self, per_step: bool) -> TrajectoryWriterOptions {
        self.signature_per_step = per_step;
        self
    }

    /// Sets the codec of the steps' elements. By default, the writer uses Snappy, which every server supports. If
    /// Snappy does not reduce the size of data, the data is stored uncompressed in Snappy's format, and the writer then
    /// tries to compress less often. With Lz4 and Zstd, data that does not shrink by a sixteenth is stored raw. Strings
    /// are always stored raw.
    ///
    /// Every reader receives the same data. Relive's readers receive it in the codec in which it was written; for other
    /// readers, the server recodes each sample with Snappy. Codecs other than Snappy need a Relive server: with a
    /// different server, the writer fails with `Unimplemented` before it sends anything.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> TrajectoryWriterOptions {
        self.codec = Some(codec);
        self
    }

    /// Returns the chunk length of columns that are not configured otherwise.
    pub(crate) fn default_length(&self) -> Result<ChunkLength> {
        if self.max_pending_items == 0 {
            return Err(Error::invalid("max_pending_items must be at least 1"));
        }
        chunk_length(self.chunk_length, self.num_keep_alive_refs)
    }
}

/// Returns a constant chunk length if one is given, and a tuned length otherwise.
pub(crate) fn chunk_length(steps: Option<u32>, num_keep_alive_refs: u32) -> Result<ChunkLength> {
    let length = match steps {
        Some(steps) => ChunkLength::constant(steps, num_keep_alive_refs),
        None => ChunkLength::auto_tuned(num_keep_alive_refs, THROUGHPUT_WEIGHT),
    };
    length.map_err(|error| Error::invalid(error.to_string()))
}
