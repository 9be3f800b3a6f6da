//! The weights that pass through a node, which fetches them from one source, and serves them to its workers and to
//! other nodes.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;

use super::boxes::{Connect, FAN_OUT, node_weight_tables};
use super::list::Source;
use crate::tables::weights::{self, Packed, Stamp};
use crate::{Result, RlError, threads};

/// How long one wait for weights lasts before the node checks its source of weights again.
const SLICE: Duration = Duration::from_millis(250);

/// How long a node may lag behind the run before it takes weights from the run's server. This is longer than the time
/// that weights need to pass through many nodes.
const LATE: Duration = Duration::from_secs(1);

/// The timeout for weights from the run's server; it also delays the end of a node.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Fetches weights on its own thread until dropped.
pub(super) struct Relay {
    shared: Arc<Relayed>,
    thread: Option<JoinHandle<()>>,
}

struct Relayed {
    /// The tables that this node serves.
    own: Client,
    state: Mutex<RelayState>,
    /// The boxes of its workers; locked while weights are written to them.
    workers: Mutex<Vec<String>>,
}

struct RelayState {
    source: Source,
    /// The newest weights of the run.
    newest: Option<Stamp>,
    /// The weights of this node.
    held: Option<Stamp>,
    /// When this node began to lag behind the run.
    behind_since: Option<Instant>,
    is_over: bool,
}

impl Relay {
    /// Starts to fetch the weights of the run on a server.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(run: &Client, own: &Client, connect: &Connect) -> Result<Relay> {
        let source = Source { address: None, reader: None };
        let state = RelayState { source, newest: None, held: None, behind_since: None, is_over: false };
        let shared =
            Arc::new(Relayed { own: own.clone(), state: Mutex::new(state), workers: Mutex::default() });
        let taking = Fetcher {
            shared: Arc::clone(&shared),
            run: run.clone(),
            connect: Arc::clone(connect),
            from: None,
            lost: None,
        };
        let thread = threads::spawn("relive-node-weights", move || taking.work())?;
        Ok(Relay { shared, thread: Some(thread) })
    }

    /// Fetches weights from the given source from now on.
    pub(super) fn follow(&self, source: &Source) {
        let mut state = self.shared.state.lock();
        if state.source != *source {
            state.source = source.clone();
        }
    }

    /// Records the newest weights of the run.
    pub(super) fn note_newest(&self, newest: Option<Stamp>) {
        let mut state = self.shared.state.lock();
        state.newest = newest;
        if state.held >= newest {
            state.behind_since = None;
        } else if state.behind_since.is_none() {
            state.behind_since = Some(Instant::now());
        }
    }

    /// Returns the version of this node's weights.
    pub(super) fn version(&self) -> Option<u64> {
        self.shared.state.lock().held.map(|stamp| stamp.version)
    }

    /// Serves weights to the given workers from now on. `change` adds and removes their boxes.
    pub(super) fn serve(&self, workers: Vec<String>, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut served = self.shared.workers.lock();
        change()?;
        *served = workers;
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Fetcher {
    shared: Arc<Relayed>,
    run: Client,
    connect: Connect,
    /// The node that currently provides weights.
    from: Option<(String, Client)>,
    /// The source whose failure has been logged.
    lost: Option<Source>,
}

impl Fetcher {
    fn work(mut self) {
        loop {
            let source = {
                let state = self.shared.state.lock();
                if state.is_over {
                    return;
                }
                state.source.clone()
            };
            match self.take(&source) {
                Ok(true) => self.note_back(&source),
                Ok(false) => self.catch_up(&source, None),
                Err(error) => {
                    self.catch_up(&source, Some(error));
                    // A rejected call returns immediately.
                    std::thread::park_timeout(SLICE);
                }
            }
        }
    }

    /// Waits for newer weights from the node's source. Returns whether any arrived.
    fn take(&mut self, source: &Source) -> Result<bool> {
        let Some(reader) = &source.reader else {
            std::thread::park_timeout(SLICE);
            return Ok(false);
        };
        let client = match &source.address {
            None => self.run.clone(),
            Some(address) => self.node(address)?,
        };
        match weights::wait(&client, reader, SLICE)? {
            Some(packed) => self.shared.keep(&packed),
            None => Ok(false),
        }
    }

    fn node(&mut self, address: &str) -> Result<Client> {
        if let Some((known, client)) = &self.from
            && known == address
        {
            return Ok(client.clone());
        }
        let client = (self.connect)(address)?;
        self.from = Some((address.to_owned(), client.clone()));
        Ok(client)
    }

    /// Takes the weights from the run's server if this node has lagged behind for too long, or if its source of weights
    /// fails.
    fn catch_up(&mut self, source: &Source, failed: Option<RlError>) {
        // A box that was never read stays empty, so a node without weights must fetch its first weights itself.
        let (is_behind, is_late, has_none) = {
            let state = self.shared.state.lock();
            let is_late = state.behind_since.is_some_and(|since| since.elapsed() >= LATE);
            (state.held < state.newest, is_late, state.held.is_none())
        };
        if !is_behind || !(is_late || has_none || failed.is_some() || source.reader.is_none()) {
            return;
        }
        if !has_none && source.address.is_some() && self.lost.as_ref() != Some(source) {
            let address = source.address.as_deref().unwrap_or_default();
            let why = failed
                .map_or_else(|| "nothing has arrived for a while".to_owned(), |error| error.to_string());
            tracing::warn!(
                "no weights arrive from the node at {address} ({why}): getting them from the run's server"
            );
            self.lost = Some(source.clone());
        }
        if let Err(error) = weights::get(&self.run, TIMEOUT).and_then(|packed| self.shared.keep(&packed)) {
            // Other code reports the loss of the server.
            tracing::debug!("no weights from the run's server: {error}");
        }
    }

    fn note_back(&mut self, source: &Source) {
        if self.lost.as_ref() == Some(source) {
            self.lost = None;
            tracing::info!(
                "weights arrive from the node at {} again",
                source.address.as_deref().unwrap_or_default()
            );
        }
    }
}

impl Relayed {
    /// Stores weights if they are newer than the current ones. Returns whether they are.
    fn keep(&self, packed: &Packed) -> Result<bool> {
        if self.state.lock().held >= Some(packed.stamp) {
            return Ok(false);
        }
        let workers = self.workers.lock();
        let nodes = (0..FAN_OUT).map(|slot| slot.to_string());
        let readers: Vec<String> = nodes.chain(workers.iter().cloned()).collect();
        packed.put(&self.own, &readers, &|| true)?;
        drop(workers);
        let mut state = self.state.lock();
        state.held = Some(packed.stamp);
        state.behind_since = (state.held < state.newest).then(Instant::now);
        Ok(true)
    }
}

/// Returns the tables of weights on each node.
pub(super) fn tables() -> impl Iterator<Item = relive_table::TableConfig> {
    std::iter::once(weights::table()).chain(node_weight_tables())
}
