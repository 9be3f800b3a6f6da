//! Writing and reading items.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_tensor::{Nest, Tensor};

use super::{Client, Connection};
use crate::batch::{BatchOptions, BatchSampler};
use crate::deadline::Deadline;
use crate::pattern::StructuredConfig;
use crate::sampler::{Sample, Sampler, SamplerOptions};
use crate::writer::{
    StructuredWriter, StructuredWriterOptions, TableSignature, TrajectoryWriter, TrajectoryWriterOptions,
};
use crate::{Error, Result};

impl Client {
    /// A writer of steps and items. It connects with its first item.
    ///
    /// # Errors
    /// `InvalidArgument` for options that contradict each other.
    pub fn trajectory_writer(&self, options: TrajectoryWriterOptions) -> Result<TrajectoryWriter> {
        TrajectoryWriter::new(self.clone(), &options)
    }

    /// A writer that makes items by itself, from patterns.
    ///
    /// # Errors
    /// `InvalidArgument` for no configuration, or one that is wrong; the error says which and why.
    pub fn structured_writer(&self, configs: Vec<StructuredConfig>) -> Result<StructuredWriter> {
        self.structured_writer_with(configs, StructuredWriterOptions::default())
    }

    /// [`structured_writer`](Self::structured_writer) with other than the default options.
    ///
    /// # Errors
    /// As [`structured_writer`](Self::structured_writer).
    pub fn structured_writer_with(
        &self,
        configs: Vec<StructuredConfig>,
        options: StructuredWriterOptions,
    ) -> Result<StructuredWriter> {
        StructuredWriter::new(self.clone(), configs, &options)
    }

    /// A reader of samples of `table`. It begins to fetch at once.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range.
    pub fn sampler(&self, table: &str, options: SamplerOptions) -> Result<Sampler> {
        Sampler::new(self, table, &options)
    }

    /// A reader of batches of `table`, whose columns are decoded into one array each.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of range; `NotFound` for an unknown table of this process (a server tells with the
    /// first batch).
    pub fn batches(&self, table: &str, options: BatchOptions) -> Result<BatchSampler> {
        BatchSampler::new(self, table, &options)
    }

    /// Writes one step as one item into each of the tables in `priorities` (name and priority), and waits until they are
    /// confirmed. The item's columns keep a leading dimension of 1.
    ///
    /// # Errors
    /// `InvalidArgument` for no tables, NaN priorities, and steps that a table's signature or the server refuses,
    /// `NotFound` for an unknown table, `Timeout` after the client's time.
    pub async fn insert(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        self.insert_with(step, priorities, true).await
    }

    /// [`insert`](Self::insert) for steps whose names may be others than those of their tables; see
    /// [`check_names`](TrajectoryWriterOptions::check_names).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn insert_unnamed(&self, step: &Nest<Tensor>, priorities: &[(&str, f64)]) -> Result<()> {
        self.insert_with(step, priorities, false).await
    }

    async fn insert_with(
        &self,
        step: &Nest<Tensor>,
        priorities: &[(&str, f64)],
        check_names: bool,
    ) -> Result<()> {
        if priorities.is_empty() {
            return Err(Error::invalid("insert: there is no table with a priority to insert into"));
        }
        let options = TrajectoryWriterOptions::new(1).signature_per_step(true).check_names(check_names);
        let mut writer = self.trajectory_writer(options)?;
        writer.append(step)?;
        let (started, deadline) = (Instant::now(), Deadline::after(self.timeout()));
        let create = create_each(&mut writer, step, priorities);
        let as_insert = |error: Error| error.renamed("insert");
        deadline.run(create).await.ok_or_else(|| self.timed_out("insert", None))?.map_err(as_insert)?;
        writer.close_with_timeout(self.timeout().saturating_sub(started.elapsed())).await.map_err(as_insert)
    }

    /// Takes `num_samples` samples of `table`; blocks while the table's rate limiter does not let them through.
    ///
    /// # Errors
    /// `Timeout` when not a single sample came in the client's time; when some came, those are returned.
    /// `InvalidArgument` for no samples, `NotFound` for an unknown table.
    pub async fn sample(&self, table: &str, num_samples: usize) -> Result<Vec<Sample>> {
        let options = SamplerOptions::default()
            .max_samples(num_samples)
            .max_in_flight_samples_per_worker(num_samples)
            .rate_limiter_timeout(self.timeout())
            .unavailable_timeout(self.timeout());
        self.sampler(table, options)?.next_batch(num_samples).await
    }

    /// The signature of `table`, if it can be told without asking a server.
    ///
    /// # Errors
    /// `NotFound` for a table that this process does not have.
    pub(crate) fn known_signature(&self, table: &str) -> Result<Option<Arc<TableSignature>>> {
        match (self.shared.signatures.get(table), self.connection()) {
            (Some(known), _) => Ok(Some(known)),
            (None, Connection::Remote(_) | Connection::Many(_)) => Ok(None),
            (None, Connection::Local(local)) => {
                let config = local.table("create_item", table)?.config();
                Ok(Some(self.shared.signatures.add(&config)))
            }
        }
    }

    /// Whether `table` is known to have a signature, which names its columns.
    pub(crate) fn has_signature(&self, table: &str) -> bool {
        self.known_signature(table).ok().flatten().is_some_and(|signature| signature.has_columns())
    }

    /// The signature of `table`, asked for if it is not known yet.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Timeout` when no server answers within `timeout`.
    pub(crate) async fn table_signature(
        &self,
        table: &str,
        timeout: Duration,
    ) -> Result<Arc<TableSignature>> {
        if let Some(known) = self.known_signature(table)? {
            return Ok(known);
        }
        self.with_timeout(timeout).tables_for("create_item").await?;
        self.shared.signatures.get(table).ok_or_else(|| self.shared.signatures.unknown(table))
    }
}

/// Makes an item of the newest step for each of the tables.
async fn create_each(
    writer: &mut TrajectoryWriter,
    step: &Nest<Tensor>,
    priorities: &[(&str, f64)],
) -> Result<()> {
    for (table, priority) in priorities {
        while !writer.agree_on_columns(table, step)? {
            writer.make_way(table).await?;
        }
        let columns = writer.newest_step()?;
        writer.create_item(table, *priority, columns).await?;
    }
    Ok(())
}
