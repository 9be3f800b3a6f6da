//! One sample.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relive_engine::TableHandle;
use relive_table::{ItemData, Sampled};
use relive_tensor::{AtHand, Tensor, Trajectory};
use relive_wire::sample::ReceivedSample;

use crate::bulk::Arrived;
use crate::{Error, ErrorKind, Result};

/// What is known of an item at the moment of sampling it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleInfo {
    /// The item's key, by which its priority is changed and it is deleted.
    pub key: u64,
    /// How likely this item was to be sampled, 1 for deterministic samplers. Of many servers: by all of them together, which is the
    /// probability at its server times the one with which that server was drawn.
    ///
    /// A server is drawn in proportion to the number of items of its table or, if its sampler is prioritized, to the sum of
    /// its priorities raised to their power, as the newest sample of it tells.
    pub probability: f64,
    /// Items in the table, this one included; of many servers, in the tables of all that take part.
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
    data: SampleData,
}

/// Where a sample's data is.
#[derive(Clone)]
pub(crate) enum SampleData {
    /// In the messages that it came in.
    Received(Box<ReceivedSample>),
    /// In the table of this process, which shares it.
    Stored { item: Arc<ItemData>, table: TableHandle, _at_hand: AtHand },
    /// In a batch, of which it is this one.
    Arrived { batch: Arc<Arrived>, at: usize },
}

impl Sample {
    pub(crate) fn received(received: ReceivedSample) -> Sample {
        let told = received.info();
        let info = SampleInfo {
            key: told.key,
            probability: told.probability,
            table_size: u64::try_from(told.table_size).unwrap_or(0),
            priority: told.priority,
            times_sampled: told.times_sampled,
            rate_limited: told.rate_limited,
        };
        Sample { info, data: SampleData::Received(Box::new(received)) }
    }

    pub(crate) fn stored(sampled: Sampled, table: &TableHandle) -> Sample {
        let info = SampleInfo::from(&sampled);
        let Sampled { item, at_hand, .. } = sampled;
        Sample { info, data: SampleData::Stored { item, table: table.clone(), _at_hand: at_hand } }
    }

    pub(crate) fn arrived(batch: &Arc<Arrived>, at: usize, info: SampleInfo) -> Sample {
        Sample { info, data: SampleData::Arrived { batch: Arc::clone(batch), at } }
    }

    /// Takes note that its table is one of several: an item of all comes from this one with the probability `share`, and the
    /// others have `others` items.
    pub(crate) fn became_one_of_more(&mut self, share: f64, others: u64) {
        self.info.probability *= share;
        self.info.table_size = self.info.table_size.saturating_add(others);
    }

    pub(crate) fn data(&self) -> &SampleData {
        &self.data
    }

    /// Key, probability and so on.
    pub fn info(&self) -> &SampleInfo {
        &self.info
    }

    /// The table that the sample was taken from.
    pub fn table(&self) -> &str {
        match &self.data {
            SampleData::Received(received) => received.table(),
            SampleData::Stored { table, .. } => table.name(),
            SampleData::Arrived { batch, .. } => batch.table(),
        }
    }

    /// When the server inserted the item, by the server's clock.
    pub fn inserted_at(&self) -> Option<SystemTime> {
        let (seconds, nanos) = match &self.data {
            SampleData::Arrived { batch, at } => return batch.inserted_at(*at),
            SampleData::Received(received) => received.info().inserted_at?,
            SampleData::Stored { item, .. } => {
                let nanos = item.inserted_at.as_nanos();
                (nanos.div_euclid(NANOS_PER_SECOND), i32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).ok()?)
            }
        };
        let since_epoch = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Number of columns; 0 for an item whose description cannot be read.
    pub fn num_columns(&self) -> usize {
        match &self.data {
            SampleData::Received(received) => received.num_columns(),
            SampleData::Stored { item, .. } => item.trajectory.num_columns(),
            SampleData::Arrived { batch, .. } => batch.num_columns(),
        }
    }

    /// Bytes of this sample's chunks as they are stored or came: in full, also those parts that the item does not refer
    /// to.
    pub fn encoded_size_bytes(&self) -> usize {
        match &self.data {
            SampleData::Arrived { batch, at } => batch.bytes_of(*at),
            SampleData::Received(received) => received.encoded_size_bytes(),
            SampleData::Stored { item, .. } => {
                usize::try_from(item.trajectory.encoded_size_bytes()).unwrap_or(usize::MAX)
            }
        }
    }

    /// The item's columns as references to chunks that are not decoded yet.
    ///
    /// # Errors
    /// `DataLoss` for chunks that cannot be read or do not have what the item refers to.
    pub fn trajectory(&self) -> Result<Trajectory> {
        match &self.data {
            SampleData::Received(received) => received.trajectory().map_err(|error| self.damaged(error)),
            SampleData::Stored { item, .. } => Ok(item.trajectory.clone()),
            SampleData::Arrived { batch, at } => batch.trajectory(*at),
        }
    }

    /// The item's data, one tensor per column: `[rows, ..cell]`, or `[..cell]` for a squeezed column.
    ///
    /// Names do not travel with an item; [`Client::column_names`](crate::Client::column_names) gives those of its table, and
    /// [`Nest::unflatten`](crate::Nest::unflatten) puts the columns under them. Columns come in the flattening order of what was given to
    /// [`create_item`](crate::TrajectoryWriter::create_item): lists as they are, dicts sorted by name, so that
    /// `{"reward": .., "action": ..}` comes back as action, then reward.
    ///
    /// # Errors
    /// `DataLoss` for data that cannot be decoded.
    pub fn columns(&self) -> Result<Vec<Tensor>> {
        let decoded = match &self.data {
            SampleData::Received(_) => self.trajectory()?.decode(),
            SampleData::Stored { item, .. } => item.trajectory.decode(),
            SampleData::Arrived { batch, at } => return batch.tensors(*at),
        };
        decoded.map_err(|error| self.damaged(error))
    }

    /// The error for data that cannot be decoded.
    pub(crate) fn damaged(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        let text = format!("item {} of table {:?} cannot be decoded: {error}", self.info.key, self.table());
        Error::with_source(ErrorKind::DataLoss, text, error)
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("info", &self.info)
            .field("table", &self.table())
            .field("num_columns", &self.num_columns())
            .finish_non_exhaustive()
    }
}
