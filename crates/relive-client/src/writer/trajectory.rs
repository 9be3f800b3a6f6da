//! The writer that users hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_tensor::{Nest, Tensor};
use tokio::task::JoinHandle;

use super::item::{PendingItem, TrajectoryColumns};
use super::link::{Limits, Link};
use super::options::{TrajectoryWriterOptions, chunk_length};
use super::recorder::Recorder;
use super::stream;
use super::structure::Structure;
use super::tables::TableSignature;
use super::tuning::Tuning;
use crate::client::{Client, Connection};
use crate::history::{Column, History};
use crate::{Error, ErrorKind, Result};

/// Writes steps and makes items that refer to them.
///
/// Steps are nests of tensors. Every leaf is a column with a history, whose newest steps items can refer to. Items are
/// sent in the background, in the order of their creation; when the connection is lost, what is not confirmed is sent
/// again, in the same order and under the same keys, so that an item never arrives twice.
///
/// A permanent error (an unknown table, a refused item) is given to every later call. End a writer with
/// [`close`](Self::close): dropping one loses the items that are not confirmed, with a warning in the log.
///
/// ```no_run
/// use relive_client::{Client, Nest, Tensor, TrajectoryWriterOptions};
///
/// # async fn run() -> Result<(), relive_client::Error> {
/// let client = Client::connect("localhost:8000")?;
/// let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3))?;
/// for reward in [0.0_f32, 0.5, 1.0] {
///     writer.append(&Nest::Dict([("reward".to_owned(), Nest::Leaf(Tensor::scalar(reward)))].into()))?;
/// }
/// let rewards = writer.history().column("reward")?.slice(-3..)?;
/// writer.create_item("replay", 1.0, rewards).await?;
/// writer.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct TrajectoryWriter {
    client: Client,
    recorder: Recorder,
    structure: Structure,
    tuning: Tuning,
    link: Arc<Link>,
    task: JoinHandle<()>,
    validate_items: bool,
    tables: Vec<KnownTable>,
}

/// A table that this writer has made items for.
struct KnownTable {
    name: Arc<str>,
    signature: Option<Arc<TableSignature>>,
}

impl TrajectoryWriter {
    pub(crate) fn new(client: Client, options: &TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        let length = options.default_length()?;
        let rng = Xoshiro256PlusPlus::try_from_rng(&mut SysRng).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the system gives no random numbers for keys: {error}"))
        })?;
        let Connection::Remote(remote) = client.connection() else {
            let text = "tables of this process cannot be written to yet";
            return Err(Error::new(ErrorKind::Unimplemented, text));
        };
        let limits = Limits { items: options.max_pending_items, bytes: options.max_pending_bytes };
        let link = Arc::new(Link::new(limits));
        let task = tokio::spawn(stream::run(Arc::clone(&link), remote.stub()));
        Ok(TrajectoryWriter {
            client,
            recorder: Recorder::new(length, rng),
            structure: Structure::default(),
            tuning: Tuning::default(),
            link,
            task,
            validate_items: options.validate_items,
            tables: Vec::new(),
        })
    }

    /// Appends one step. Leaves that are missing or `None` leave a gap in their column; leaves that no step had before
    /// get new columns.
    ///
    /// # Errors
    /// `InvalidArgument` when a leaf has another type or shape than before, or is a container now; nothing is stored then.
    /// The writer's permanent error.
    pub fn append(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.append_nest(step, false)
    }

    /// Appends a part of a step, which stays open: the next append fills the same step.
    ///
    /// # Errors
    /// As [`append`](Self::append), and `InvalidArgument` when a leaf was already set in this step.
    pub fn append_partial(&mut self, step: &Nest<Tensor>) -> Result<()> {
        self.append_nest(step, true)
    }

    fn append_nest(&mut self, step: &Nest<Tensor>, partial: bool) -> Result<()> {
        let (cells, grown) = self.structure.place(step)?;
        self.recorder.check(&cells)?;
        if let Some(grown) = grown {
            self.recorder
                .add_columns(grown.paths().get(self.structure.paths().len()..).unwrap_or_default())?;
            self.structure = grown;
        }
        self.append_cells(&cells, partial)
    }

    /// Appends checked cells of known columns.
    fn append_cells(&mut self, cells: &[(usize, &Tensor)], partial: bool) -> Result<()> {
        let finished = self.recorder.append(cells, partial)?;
        self.link.chunks_were_cut(&finished)
    }

    /// Appends cells by column number, for writers that place leaves themselves.
    pub(super) fn append_flat(&mut self, cells: &[(usize, &Tensor)], partial: bool) -> Result<()> {
        self.recorder.check(cells)?;
        self.append_cells(cells, partial)
    }

    pub(super) fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What items can refer to.
    pub fn history(&self) -> History<'_> {
        History::new(&self.recorder)
    }

    /// Completed steps of this episode.
    pub fn episode_steps(&self) -> u64 {
        self.recorder.episode_steps()
    }

    /// Whether the last append left its step open.
    pub fn step_is_open(&self) -> bool {
        self.recorder.step_is_open()
    }

    /// Items that the server has not confirmed.
    pub fn pending_items(&self) -> usize {
        self.link.pending_items()
    }

    /// Makes an item of `trajectory` (a column, or an array, vector or nest of columns of this writer's history) for
    /// `table` and gives its key. Waits while as much as the options allow is not confirmed.
    ///
    /// # Errors
    /// `InvalidArgument` for no columns, columns of another writer, a NaN priority and, if items are validated, columns
    /// that the table's signature does not allow; `NotFound` for an unknown table; `Timeout` when there was no room in
    /// the client's time (the item was not made then); the writer's permanent error.
    pub async fn create_item(
        &mut self,
        table: &str,
        priority: f64,
        trajectory: impl Into<TrajectoryColumns>,
    ) -> Result<u64> {
        let trajectory = trajectory.into();
        let columns = trajectory.columns();
        self.check_item(priority, columns)?;
        let table = self.check_table(table, columns).await?;
        let key = self.recorder.draw_key();
        let item = PendingItem::new(key, table, priority, columns);
        self.tuning.record(columns, &mut self.recorder);
        let mut refused = self.link.try_push(item)?;
        while let Some(item) = refused {
            // Whatever waits for a chunk to be cut would wait for this call, too.
            self.finish_pending()?;
            self.link.wait_for_room(self.client.options().timeout).await?;
            refused = self.link.try_push(item)?;
        }
        Ok(key)
    }

    fn check_item(&self, priority: f64, columns: &[Column]) -> Result<()> {
        if columns.is_empty() {
            return Err(Error::invalid("create_item: the trajectory has no columns"));
        }
        if priority.is_nan() {
            return Err(Error::invalid("create_item: the priority is NaN"));
        }
        let mine = self.recorder.writer_id();
        match columns.iter().find(|column| column.writer_id() != mine) {
            Some(foreign) => Err(Error::invalid(format!(
                "create_item: column {:?} belongs to the history of another writer",
                foreign.path()
            ))),
            None => Ok(()),
        }
    }

    /// The table's name, once the columns are found to fit its signature.
    async fn check_table(&mut self, table: &str, columns: &[Column]) -> Result<Arc<str>> {
        let position = match self.tables.iter().position(|known| &*known.name == table) {
            Some(position) => position,
            None => {
                let signature = match self.validate_items {
                    true => Some(self.client.table_signature(table, self.client.options().timeout).await?),
                    false => None,
                };
                self.tables.push(KnownTable { name: Arc::from(table), signature });
                self.tables.len() - 1
            }
        };
        let known = &self.tables[position];
        if let Some(signature) = &known.signature {
            signature.check(columns)?;
        }
        Ok(Arc::clone(&known.name))
    }

    /// A column of length 1 for each leaf that the newest step set.
    pub(crate) fn newest_step(&self) -> Result<Vec<Column>> {
        (0..self.recorder.columns().len())
            .map(|column| self.history().column_at(column)?.slice(-1..))
            .collect()
    }

    /// Waits until all items are confirmed.
    ///
    /// # Errors
    /// `Timeout` after `timeout`, with what is waited for; the writer's permanent error.
    pub async fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.flush_until(0, timeout).await
    }

    /// Waits until at most `items` items are not confirmed.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn flush_until(&mut self, items: usize, timeout: Duration) -> Result<()> {
        if self.link.pending_items() > items {
            self.finish_pending()?;
        }
        self.link.wait_for_pending(items, timeout).await
    }

    /// Cuts the chunks that items wait for.
    fn finish_pending(&mut self) -> Result<()> {
        let finished = self.recorder.finish_pending()?;
        self.link.chunks_were_cut(&finished)
    }

    /// Flushes and begins a new episode; with `clear_history`, items of the new one cannot refer to steps of the old one.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); the episode then goes on, so that the call can be repeated.
    pub async fn end_episode(&mut self, clear_history: bool, timeout: Duration) -> Result<()> {
        let finished = self.recorder.finish_all()?;
        self.link.chunks_were_cut(&finished)?;
        self.link.wait_for_pending(0, timeout).await?;
        self.recorder.start_episode(clear_history);
        Ok(())
    }

    /// Sets for the column at `path` how many steps it keeps and how many a chunk gets (`None`: tuned). The column may be
    /// one that no step had yet.
    ///
    /// # Errors
    /// `InvalidArgument` unless `1 <= chunk_length <= num_keep_alive_refs`, `FailedPrecondition` while the column has
    /// steps that are not in a chunk yet.
    pub fn configure(
        &mut self,
        path: &str,
        num_keep_alive_refs: u32,
        chunk_steps: Option<u32>,
    ) -> Result<()> {
        self.recorder.configure(path, chunk_length(chunk_steps, num_keep_alive_refs)?)
    }

    /// Flushes and ends the writer, within the client's time.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); the items that are not confirmed by then are lost.
    pub async fn close(self) -> Result<()> {
        let timeout = self.client.options().timeout;
        self.close_with_timeout(timeout).await
    }

    /// [`close`](Self::close) with a time of its own.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn close_with_timeout(mut self, timeout: Duration) -> Result<()> {
        self.flush(timeout).await?;
        self.link.close();
        Ok(())
    }
}

impl Drop for TrajectoryWriter {
    fn drop(&mut self) {
        let lost = self.link.pending_items();
        if lost > 0 {
            tracing::warn!(
                lost_items = lost,
                server = self.client.address(),
                "trajectory writer dropped before its items were confirmed; call close() to wait for them"
            );
            self.task.abort();
            self.link.abandon();
        } else {
            self.link.close();
        }
    }
}

impl fmt::Debug for TrajectoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrajectoryWriter")
            .field("client", &self.client)
            .field("episode_steps", &self.episode_steps())
            .field("pending_items", &self.pending_items())
            .finish_non_exhaustive()
    }
}
