//! Changes tables while they are in use, and names their columns.

use std::error::Error as _;

use relive_connection::{Error, Result};
use relive_fleet::{PartialFailure, Target};
use relive_table::{Changed, TableChange, TableConfig};
use relive_tensor::Nest;

use super::Client;

impl Client {
    /// Changes the rules of `table` while it is in use. Makes either all of the changes or none of them. Returns the
    /// rules that changed.
    ///
    /// Waiting calls proceed if the new rules allow it. The cursor of the rate limiter keeps its value, because a new
    /// ratio applies only to later inserts.
    ///
    /// If a bound shrinks, the remover evicts the excess items before this function returns. The server logs the change
    /// and lists it in [`ServerStatus::changes`](crate::ServerStatus::changes). The change lasts until the server ends.
    /// A server that starts from a checkpoint uses the rules in that checkpoint, and nothing is paused.
    ///
    /// ```
    /// use relive_client::{Client, TableChange};
    /// # use relive_engine::Engine;
    /// # use relive_table::TableConfig;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # let client = Client::in_process(Engine::builder().table(TableConfig::queue("steps", 100)).build()?);
    /// # runtime.block_on(async {
    /// let changed = client.change_table("steps", TableChange::new().max_size(10)).await?;
    /// assert_eq!((&*changed.changes[0].old, &*changed.changes[0].new), ("100", "10"));
    /// # Ok::<(), relive_client::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for rules that are out of range or an empty change;
    /// `Unimplemented` from a dm-reverb server; `Timeout` after the client's timeout.
    pub async fn change_table(&self, table: &str, change: TableChange) -> Result<Changed> {
        if change.is_empty() {
            return Err(Error::invalid("change_table: no rule is set; set at least one"));
        }
        match self.backend.target() {
            Target::Server(server) => server.change_table(table, &change, self.timeout()).await,
            Target::Process(local) => local.change_table(table, &change),
            Target::Fleet(fleet) => fleet.change_table(table, &change, self.timeout()).await,
        }
    }

    /// Pauses inserts into `table`, samples from it, or both. Calls then wait; if they time out, their error states
    /// that the table is paused.
    ///
    /// # Errors
    /// The errors of [`change_table`](Self::change_table).
    pub async fn pause_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, true)).await
    }

    /// Resumes inserts into `table`, samples from it, or both.
    ///
    /// # Errors
    /// The errors of [`change_table`](Self::change_table).
    pub async fn resume_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, false)).await
    }

    /// Adds an empty table.
    ///
    /// The next checkpoint contains the table. After a restart, the server restores the table only if the server's
    /// configuration also contains it.
    ///
    /// # Errors
    /// `InvalidArgument` for rules that are out of range or a name that is already in use; `Unimplemented` from a
    /// dm-reverb server; `Timeout` after the client's timeout.
    pub async fn add_table(&self, config: TableConfig) -> Result<()> {
        config.validate().map_err(|error| Error::invalid(format!("add_table: {error}")))?;
        match self.backend.target() {
            Target::Server(server) => server.add_table(&config, self.timeout()).await,
            Target::Process(local) => local.add_table(config),
            Target::Fleet(fleet) => fleet.add_table(config, self.timeout()).await,
        }
    }

    /// Drops `table` with all its items. Calls that are waiting for it fail with `NotFound`. The last table of a server
    /// cannot be dropped.
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `InvalidArgument` for the only table; `Unimplemented` from a dm-reverb server;
    /// `Timeout` after the client's timeout.
    pub async fn drop_table(&self, table: &str) -> Result<()> {
        let dropped = match self.backend.target() {
            Target::Server(server) => server.drop_table(table, self.timeout()).await,
            Target::Process(local) => local.drop_table(table),
            Target::Fleet(fleet) => fleet.drop_table(table, self.timeout()).await,
        };
        // A later table with this name may have different columns, so the names are forgotten for every server that
        // dropped the table.
        if dropped.as_ref().map_or_else(is_done_in_part, |()| true) {
            self.backend.forget_columns(table);
        }
        dropped
    }

    /// Proposes `structure` as the structure of the items of `table`. The leaves of `structure` are the columns of an
    /// item in flattening order. Returns whether the table keeps this structure. A table keeps the structure of its
    /// signature or, without a signature, the first one that was proposed.
    ///
    /// Writers call this themselves.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or with more than 4,096 columns, 32 levels or 64 KiB of
    /// names; `NotFound` for an unknown table; `Unimplemented` from a dm-reverb server; `Timeout` after the client's
    /// timeout.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        self.backend.name_columns(table, structure).await
    }

    /// Returns the structure of the items of `table`. [`Nest::unflatten`] arranges the columns of a sample
    /// ([`Sample::columns`](crate::Sample::columns)) under their names. Returns `None` if no writer has named the
    /// columns, or if the server is dm-reverb.
    ///
    /// Items that were written with a different structure than the first item may have different columns.
    ///
    /// ```
    /// # use relive_client::{Client, Nest, Tensor};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = relive_engine::Engine::builder().table(relive_table::TableConfig::new("replay")).build()?;
    /// # let client = Client::in_process(engine);
    /// let step = Nest::dict([("observation", Tensor::scalar(1.0_f32)), ("action", Tensor::scalar(3_i32))]);
    /// client.insert(&step, &[("replay", 1.0)]).await?;
    /// let sample = client.sample("replay", 1).await?.remove(0);
    /// let names = client.column_names("replay").await?.expect("the writer said what its items look like");
    /// let Nest::Dict(data) = names.unflatten(sample.columns()?)? else { unreachable!() };
    /// assert_eq!(data["action"], Nest::Leaf(Tensor::from_slice(&[3_i32], [1])?));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` for an unknown table; `Timeout` after the client's timeout.
    pub async fn column_names(&self, table: &str) -> Result<Option<Nest<()>>> {
        match self.backend.target() {
            Target::Server(server) => server.column_names(table, self.timeout()).await,
            Target::Process(local) => local.column_names(table),
            Target::Fleet(fleet) => fleet.column_names(table, self.timeout()).await,
        }
    }
}

fn is_done_in_part(error: &Error) -> bool {
    let failure = error.source().and_then(|source| source.downcast_ref::<PartialFailure>());
    failure.is_some_and(|failure| !failure.done().is_empty())
}

fn paused(inserts: bool, samples: bool, pause: bool) -> TableChange {
    TableChange {
        pause_inserts: inserts.then_some(pause),
        pause_samples: samples.then_some(pause),
        ..TableChange::default()
    }
}
