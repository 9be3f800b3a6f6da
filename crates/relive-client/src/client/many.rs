//! A client of many servers.

use std::sync::Arc;

use super::{Client, ClientOptions, Connection, Proposals};
use crate::Result;
use crate::many::{Many, ServerChange, ServerState, sources};

impl Client {
    /// A client of all servers at `addresses` as if they were one: each is `host:port`, or `dns:///name:port` for all
    /// addresses that the name has. Must be called inside a Tokio runtime, whose tasks watch the servers.
    ///
    /// Writers share the servers among them, each of their streams stays at one. Samples and batches come from all,
    /// weighted by the sizes of their tables: see [`SampleInfo::probability`](crate::SampleInfo::probability). Changes of priorities and
    /// deletions go to the server that has the item. What servers tell of themselves is added up; resetting, checkpoints and changes of
    /// tables are made at all, or fail with a [`PartialFailure`](crate::PartialFailure). A server that is away is left out until it
    /// answers again, and nothing waits for it; [`servers`](Self::servers) and [`server_changes`](Self::server_changes) tell.
    ///
    /// ```no_run
    /// use relive_client::{BatchOptions, Client};
    ///
    /// # async fn run() -> Result<(), relive_client::Error> {
    /// let client = Client::connect_many(&["replay-0:8000", "replay-1:8000"])?;
    /// let mut batches = client.batches("replay", BatchOptions::new(256))?;
    /// if let Some(batch) = batches.next().await {
    ///     let keys: Vec<(u64, f64)> = batch?.infos().map(|info| (info.key, 1.0)).collect();
    ///     client.update_priorities("replay", &keys).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for no addresses, the same twice, and one that cannot be one.
    pub fn connect_many<A: AsRef<str>>(addresses: &[A]) -> Result<Client> {
        Client::connect_many_with(addresses, ClientOptions::default())
    }

    /// [`connect_many`](Self::connect_many) with other than the default options.
    ///
    /// # Errors
    /// As [`connect_many`](Self::connect_many).
    pub fn connect_many_with<A: AsRef<str>>(addresses: &[A], options: ClientOptions) -> Result<Client> {
        let proposals: Arc<Proposals> = Arc::default();
        let many = Many::start(sources(addresses)?, &options, Arc::clone(&proposals))?;
        Ok(Client::with_connection(Connection::Many(many), options, proposals))
    }

    /// The servers of a client of many, as they stand now; none of a client of one, which watches nothing.
    pub fn servers(&self) -> Vec<ServerState> {
        self.many().map(|many| many.states()).unwrap_or_default()
    }

    /// The last 256 times that a server was left out, taken back, or no longer among the addresses of its name; the oldest first.
    pub fn server_changes(&self) -> Vec<ServerChange> {
        self.many().map(|many| many.changes()).unwrap_or_default()
    }

    /// A client of one of many servers, by its address as [`servers`](Self::servers) tells it.
    pub fn server(&self, address: &str) -> Option<Client> {
        self.many()?.client_of(address)
    }

    fn many(&self) -> Option<&Arc<Many>> {
        match self.connection() {
            Connection::Many(many) => Some(many),
            Connection::Remote(_) | Connection::Local(_) => None,
        }
    }
}
