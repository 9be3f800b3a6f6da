//! One sample.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relive_batch::{Gathered, SampleInfo};
use relive_connection::{Error, ErrorKind, Result};
use relive_table::{ItemData, ItemStructure, Sampled, Timestamp};
use relive_tensor::{Chunk, ResidenceGuard, Tensor, Trajectory};
use relive_wire::sample::ReceivedSample;

/// A sampled item: its data and key, and its probability and priority at the time of sampling.
///
/// The data is decoded only on request.
///
/// # Example
///
/// ```
/// use relive_client::{Client, Nest, Tensor};
/// # use relive_engine::Engine;
/// # use relive_table::TableConfig;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::in_process(Engine::builder().table(TableConfig::new("replay")).build()?);
/// let step = Nest::dict([("reward", Tensor::scalar(1.0_f32)), ("action", Tensor::scalar(3_i32))]);
/// client.insert(&step, &[("replay", 2.0)]).await?;
///
/// let sample = client.sample("replay", 1).await?.remove(0);
/// let info = sample.info();
/// assert_eq!((info.priority, info.probability, info.table_size), (2.0, 1.0, 1));
/// let columns = sample.columns()?; // Sorted by name: action, reward.
/// assert_eq!(columns[0].to_vec::<i32>()?, [3]);
/// assert_eq!(columns[1].to_vec::<f32>()?, [1.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Shapes
///
/// A column has the shape `[rows, ..cell]`, or `[..cell]` if the writer squeezed it. `Client::insert` writes columns
/// with one row.
///
/// # Names
///
/// An item contains its columns, but not their names. `Client::column_names` returns the names of a table's columns.
#[derive(Clone)]
pub struct Sample {
    info: SampleInfo,
    data: SampleData,
}

/// The location of a sample's data.
#[derive(Clone)]
enum SampleData {
    /// In the messages in which it arrived.
    Received(Box<ReceivedSample>),
    /// In chunks that a table in this process shares.
    Stored { item: Arc<ItemData>, table: Arc<str>, residence_guard: ResidenceGuard },
    /// In a batch, at this position.
    Gathered { batch: Arc<Gathered>, at: usize },
}

impl Sample {
    pub(crate) fn received(received: ReceivedSample) -> Sample {
        let received_info = received.info();
        let info = SampleInfo {
            key: received_info.key,
            probability: received_info.probability,
            table_size: u64::try_from(received_info.table_size).unwrap_or(0),
            priority: received_info.priority,
            times_sampled: received_info.times_sampled,
            rate_limited: received_info.rate_limited,
        };
        Sample { info, data: SampleData::Received(Box::new(received)) }
    }

    pub(crate) fn stored(sampled: Sampled, table: &Arc<str>) -> Sample {
        let info = SampleInfo::from(&sampled);
        let Sampled { item, residence_guard, .. } = sampled;
        Sample { info, data: SampleData::Stored { item, table: Arc::clone(table), residence_guard } }
    }

    pub(crate) fn gathered(batch: &Arc<Gathered>, at: usize, info: SampleInfo) -> Sample {
        Sample { info, data: SampleData::Gathered { batch: Arc::clone(batch), at } }
    }

    /// Adjusts the probability and table size for a table that is one of several. A sample comes from this table with
    /// the probability `share`, and the other tables have `others` items.
    pub(crate) fn scale_to_fleet(&mut self, share: f64, others: u64) {
        self.info.probability *= share;
        self.info.table_size = self.info.table_size.saturating_add(others);
    }

    /// Returns the sampling information: key, probability and further details.
    pub fn info(&self) -> &SampleInfo {
        &self.info
    }

    /// Returns the table from which the sample was taken.
    pub fn table(&self) -> &str {
        match &self.data {
            SampleData::Received(received) => received.table(),
            SampleData::Stored { table, .. } => table,
            SampleData::Gathered { batch, .. } => batch.table(),
        }
    }

    /// Returns the structure of its table's items, if the structure came with the sample.
    pub(crate) fn structure(&self) -> Option<&Arc<ItemStructure>> {
        match &self.data {
            SampleData::Received(received) => received.structure(),
            SampleData::Stored { .. } | SampleData::Gathered { .. } => None,
        }
    }

    /// Returns when the item was inserted, according to the server's clock, or `None` if the server does not report the
    /// time.
    pub fn inserted_at(&self) -> Option<SystemTime> {
        let inserted_at = match &self.data {
            SampleData::Gathered { batch, at } => batch.inserted_at(*at)?,
            SampleData::Received(received) => inserted_at(received)?,
            SampleData::Stored { item, .. } => item.inserted_at,
        };
        let since_epoch = Duration::from_nanos(u64::try_from(inserted_at.as_nanos()).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Returns the number of columns, or 0 for an item whose description cannot be read.
    pub fn num_columns(&self) -> usize {
        match &self.data {
            SampleData::Received(received) => received.num_columns(),
            SampleData::Stored { item, .. } => item.trajectory.num_columns(),
            SampleData::Gathered { batch, .. } => batch.columns().len(),
        }
    }

    /// Returns the number of bytes in this sample's chunks as stored or received, including parts to which the item
    /// does not refer.
    pub fn encoded_size_bytes(&self) -> usize {
        match &self.data {
            SampleData::Gathered { batch, at } => batch.bytes_of(*at),
            SampleData::Received(received) => received.encoded_size_bytes(),
            SampleData::Stored { item, .. } => {
                usize::try_from(item.trajectory.encoded_size_bytes()).unwrap_or(usize::MAX)
            }
        }
    }

    /// Returns the item's columns as references to chunks, which are not decoded.
    ///
    /// # Errors
    /// `DataLoss` for chunks that cannot be read or that lack rows to which the item refers.
    pub fn trajectory(&self) -> Result<Trajectory> {
        match &self.data {
            SampleData::Received(received) => received.trajectory().map_err(|error| self.damaged(error)),
            SampleData::Stored { item, .. } => Ok(item.trajectory.clone()),
            SampleData::Gathered { batch, at } => batch.trajectory(*at).map_err(|error| self.damaged(error)),
        }
    }

    /// Decodes the item's data: one tensor per column, `[rows, ..cell]`, or `[..cell]` for a squeezed column.
    ///
    /// The columns are in the flattening order of the trajectory given to `TrajectoryWriter::create_item`: lists in
    /// order, dicts sorted by name. `{"reward": .., "action": ..}` is read as action, then reward. Items do not contain
    /// names: `Client::column_names` returns the names of the table's columns, and
    /// [`Nest::unflatten`](relive_tensor::Nest::unflatten) arranges the columns under these names.
    ///
    /// # Errors
    /// `DataLoss` for data that cannot be decoded.
    pub fn columns(&self) -> Result<Vec<Tensor>> {
        let decoded = match &self.data {
            SampleData::Received(_) => self.trajectory()?.decode(),
            SampleData::Stored { item, .. } => item.trajectory.decode(),
            SampleData::Gathered { batch, at } => {
                return batch.tensors(*at).map_err(|error| self.damaged(error));
            }
        };
        decoded.map_err(|error| self.damaged(error))
    }

    /// Returns the error for data that cannot be decoded.
    pub(crate) fn damaged(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        let text = format!("cannot decode item {} of table {:?}: {error}", self.info.key, self.table());
        Error::with_source(ErrorKind::DataLoss, text, error)
    }
}

/// Converts samples to the form that tables in this process return. Chunks that they share are read once.
///
/// # Errors
/// `DataLoss` for the first sample that cannot be read.
pub(crate) fn stored_samples(samples: &[Sample]) -> Result<Vec<Sampled>> {
    let mut known = HashMap::new();
    samples.iter().map(|sample| sample.to_stored(&mut known)).collect()
}

impl Sample {
    fn to_stored(&self, known: &mut HashMap<u64, Arc<Chunk>>) -> Result<Sampled> {
        let (item, residence_guard) = match &self.data {
            SampleData::Stored { item, residence_guard, .. } => (Arc::clone(item), residence_guard.clone()),
            SampleData::Received(received) => {
                let trajectory = received.trajectory_beside(known).map_err(|error| self.damaged(error))?;
                let inserted_at = inserted_at(received).unwrap_or(Timestamp::EPOCH);
                (self.item_of(trajectory, inserted_at), ResidenceGuard::default())
            }
            SampleData::Gathered { batch, at } => {
                let inserted_at = batch.inserted_at(*at).unwrap_or(Timestamp::EPOCH);
                (self.item_of(self.trajectory()?, inserted_at), ResidenceGuard::default())
            }
        };
        let SampleInfo { probability, table_size, priority, times_sampled, rate_limited, .. } = self.info;
        Ok(Sampled { item, priority, probability, table_size, times_sampled, rate_limited, residence_guard })
    }

    fn item_of(&self, trajectory: Trajectory, inserted_at: Timestamp) -> Arc<ItemData> {
        Arc::new(ItemData { trajectory, key: self.info.key, sequence: 0, inserted_at })
    }
}

/// Returns the insertion time that the server reports.
fn inserted_at(received: &ReceivedSample) -> Option<Timestamp> {
    let (seconds, nanos) = received.info().inserted_at?;
    Some(Timestamp::from_nanos(seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(i64::from(nanos))?))
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
