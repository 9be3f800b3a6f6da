//! Changing the tables of a server in use, and naming their columns.

use std::error::Error as _;

use relive_connection::{Error, Result};
use relive_fleet::{PartialFailure, Target};
use relive_table::{Changed, TableChange, TableConfig};
use relive_tensor::Nest;

use super::Client;

impl Client {
    /// Changes rules of `table` while it is in use, all of them or none; tells what is other than before. Whoever may
    /// go on then does. The cursor of the rate limiter stays where it is: a new ratio is for inserts to come.
    ///
    /// Items beyond smaller bounds leave by the remover's choice before this returns. The change is logged by the
    /// server and shown in [`ServerStatus::changes`](crate::ServerStatus::changes). It lasts until the server ends;
    /// one that begins with a checkpoint has the rules of that checkpoint, and nothing is paused.
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
    /// `NotFound` for an unknown table, `InvalidArgument` for rules out of range and for no change at all,
    /// `Unimplemented` from a dm-reverb server, `Timeout` after the client's time.
    pub async fn change_table(&self, table: &str, change: TableChange) -> Result<Changed> {
        if change.is_empty() {
            return Err(Error::invalid("change_table: nothing is to be changed; set at least one rule"));
        }
        match self.backend.target() {
            Target::Server(server) => server.change_table(table, &change, self.timeout()).await,
            Target::Process(local) => local.change_table(table, &change),
            Target::Fleet(fleet) => fleet.change_table(table, &change, self.timeout()).await,
        }
    }

    /// Holds back inserts, samples or both of `table`. Calls wait, and say that the table is paused if they are given
    /// up.
    ///
    /// # Errors
    /// As [`change_table`](Self::change_table).
    pub async fn pause_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, true)).await
    }

    /// Lets inserts, samples or both of `table` go on.
    ///
    /// # Errors
    /// As [`change_table`](Self::change_table).
    pub async fn resume_table(&self, table: &str, inserts: bool, samples: bool) -> Result<Changed> {
        self.change_table(table, paused(inserts, samples, false)).await
    }

    /// Adds an empty table. A server that is started again finds it in its checkpoint, and wants it in its
    /// configuration, too.
    ///
    /// # Errors
    /// `InvalidArgument` for rules out of range and for a name that is taken, `Unimplemented` from a dm-reverb
    /// server, `Timeout` after the client's time.
    pub async fn add_table(&self, config: TableConfig) -> Result<()> {
        config.validate().map_err(|error| Error::invalid(format!("add_table: {error}")))?;
        match self.backend.target() {
            Target::Server(server) => server.add_table(&config, self.timeout()).await,
            Target::Process(local) => local.add_table(config),
            Target::Fleet(fleet) => fleet.add_table(config, self.timeout()).await,
        }
    }

    /// Drops `table` with all its items. Calls that wait for it fail with `NotFound`. A server keeps its last table.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `InvalidArgument` for the only one, `Unimplemented` from a dm-reverb server,
    /// `Timeout` after the client's time.
    pub async fn drop_table(&self, table: &str) -> Result<()> {
        let dropped = match self.backend.target() {
            Target::Server(server) => server.drop_table(table, self.timeout()).await,
            Target::Process(local) => local.drop_table(table),
            Target::Fleet(fleet) => fleet.drop_table(table, self.timeout()).await,
        };
        // Another one of this name has items that are to be described anew, at every server that dropped this one.
        if dropped.as_ref().map_or_else(is_done_in_part, |()| true) {
            self.backend.proposals().forget(table);
        }
        dropped
    }

    /// Proposes `structure` as what the items of `table` look like; its leaves are their columns in the flattening
    /// order. Tells whether it is the structure that the table keeps: its signature's, or else the first that was
    /// proposed.
    ///
    /// Writers do this by themselves.
    ///
    /// # Errors
    /// `InvalidArgument` for a structure without columns, or with more than 4,096 of them, 32 levels or 64 KiB of
    /// names; `NotFound` for an unknown table, `Unimplemented` from a dm-reverb server, `Timeout` after the client's
    /// time.
    pub async fn name_columns(&self, table: &str, structure: &Nest<()>) -> Result<bool> {
        self.backend.name_columns(table, structure).await
    }

    /// What the items of `table` look like: the structure that puts the columns of its samples
    /// ([`Sample::columns`](crate::Sample::columns)) under their names again, by [`Nest::unflatten`]. None if nobody
    /// has said it, and from a dm-reverb server.
    ///
    /// An item that was written with another structure than the first may have other columns.
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
    /// `NotFound` for an unknown table, `Timeout` after the client's time.
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
