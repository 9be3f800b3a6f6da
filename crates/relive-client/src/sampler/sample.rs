//! One sample.

use std::fmt;
use std::time::{Duration, SystemTime};

use relive_tensor::{Tensor, Trajectory};
use relive_wire::reverb::PrioritizedItem;
use relive_wire::sample::ReceivedSample;

use crate::{Error, ErrorKind, Result};

/// What is known of an item at the moment of sampling it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleInfo {
    /// The item's key, by which its priority is changed and it is deleted.
    pub key: u64,
    /// How likely this item was to be sampled, 1 for deterministic samplers.
    pub probability: f64,
    /// Items in the table, this one included.
    pub table_size: u64,
    /// The item's priority.
    pub priority: f64,
    /// How often the item was sampled, this time included.
    pub times_sampled: i32,
    /// Whether the rate limiter held this sample back.
    pub rate_limited: bool,
}

/// An item as it was sampled. Its data is decoded when it is asked for.
#[derive(Clone)]
pub struct Sample {
    info: SampleInfo,
    received: ReceivedSample,
}

impl Sample {
    pub(crate) fn new(received: ReceivedSample) -> Sample {
        let nothing = PrioritizedItem::default();
        let item = received.info.item.as_ref().unwrap_or(&nothing);
        let info = SampleInfo {
            key: item.key,
            probability: received.info.probability,
            table_size: u64::try_from(received.info.table_size).unwrap_or(0),
            priority: item.priority,
            times_sampled: item.times_sampled,
            rate_limited: received.info.rate_limited,
        };
        Sample { info, received }
    }

    /// Key, probability and so on.
    pub fn info(&self) -> &SampleInfo {
        &self.info
    }

    /// The table that the sample was taken from.
    pub fn table(&self) -> &str {
        self.received.info.item.as_ref().map_or("", |item| &item.table)
    }

    /// When the server inserted the item, by the server's clock.
    pub fn inserted_at(&self) -> Option<SystemTime> {
        let at = self.received.info.item.as_ref()?.inserted_at.as_ref()?;
        let since_epoch = Duration::new(u64::try_from(at.seconds).ok()?, u32::try_from(at.nanos).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Number of columns.
    pub fn num_columns(&self) -> usize {
        let flat = self.received.info.item.as_ref().and_then(|item| item.flat_trajectory.as_ref());
        flat.map_or(0, |flat| flat.columns.len())
    }

    /// Bytes received for this sample: its chunks in full, also those parts that the item does not refer to.
    pub fn encoded_size_bytes(&self) -> usize {
        self.received.chunks.iter().map(bytes::Bytes::len).sum()
    }

    /// The item's columns as references to chunks that are not decoded yet.
    ///
    /// # Errors
    /// `DataLoss` for chunks that cannot be read or do not have what the item refers to.
    pub fn trajectory(&self) -> Result<Trajectory> {
        self.received.trajectory().map_err(|error| self.damaged(error))
    }

    /// The item's data, one tensor per column: `[rows, ..cell]`, or `[..cell]` for a squeezed column.
    ///
    /// Names do not travel with an item. Columns come in the flattening order of what was given to
    /// [`create_item`](crate::TrajectoryWriter::create_item): lists as they are, dicts sorted by name, so that
    /// `{"reward": .., "action": ..}` comes back as action, then reward.
    ///
    /// # Errors
    /// `DataLoss` for data that cannot be decoded.
    pub fn columns(&self) -> Result<Vec<Tensor>> {
        self.trajectory()?.decode().map_err(|error| self.damaged(error))
    }

    fn damaged(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        let text = format!("item {} of table {:?} cannot be decoded: {error}", self.info.key, self.table());
        Error::with_source(ErrorKind::DataLoss, text, error)
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("info", &self.info)
            .field("table", &self.table())
            .field("num_columns", &self.num_columns())
            .finish_non_exhaustive()
    }
}
