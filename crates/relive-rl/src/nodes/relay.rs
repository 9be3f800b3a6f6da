//! The weights that go through a node: taken from one place, and kept where its workers and other nodes take them.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;

use super::boxes::{Connect, FAN_OUT, boxes_of_nodes};
use super::list::Source;
use crate::tables::weights::{self, Packed, Stamp};
use crate::{Result, RlError};

/// How long weights are waited for before it is looked whether they should come from somewhere else.
const SLICE: Duration = Duration::from_millis(250);

/// How long a node is behind the run before it takes the weights from the run's server. Longer than weights are on
/// their way through many nodes.
const LATE: Duration = Duration::from_secs(1);

/// How long the run's server may take for weights: the node that ends waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Takes weights on a thread of its own, until it is dropped.
pub(super) struct Relay {
    shared: Arc<Relayed>,
    thread: Option<JoinHandle<()>>,
}

struct Relayed {
    /// The tables that this node serves.
    own: Client,
    state: Mutex<RelayState>,
    /// The boxes of its workers; held while weights are put into them.
    workers: Mutex<Vec<String>>,
}

struct RelayState {
    source: Source,
    /// The weights of the run.
    newest: Option<Stamp>,
    /// The weights of this node.
    held: Option<Stamp>,
    /// Since when it has not had the newest.
    behind_since: Option<Instant>,
    is_over: bool,
}

impl Relay {
    /// Begins to take weights of the run on a server.
    ///
    /// # Errors
    /// There is no thread to be had.
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
        let thread = Builder::new().name("relive-node-weights".to_owned()).spawn(move || taking.work());
        let thread =
            thread.map_err(|error| RlError::file("the thread of a node's weights".as_ref(), error))?;
        Ok(Relay { shared, thread: Some(thread) })
    }

    /// From now on weights come from there.
    pub(super) fn follow(&self, source: &Source) {
        let mut state = self.shared.state.lock();
        if state.source != *source {
            state.source = source.clone();
        }
    }

    /// The run has these weights.
    pub(super) fn note_newest(&self, newest: Option<Stamp>) {
        let mut state = self.shared.state.lock();
        state.newest = newest;
        if state.held >= newest {
            state.behind_since = None;
        } else if state.behind_since.is_none() {
            state.behind_since = Some(Instant::now());
        }
    }

    /// The version of the weights that this node has.
    pub(super) fn version(&self) -> Option<u64> {
        self.shared.state.lock().held.map(|stamp| stamp.version)
    }

    /// From now on these workers take weights here. `change` adds and drops their boxes.
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
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Fetcher {
    shared: Arc<Relayed>,
    run: Client,
    connect: Connect,
    /// The node that weights come from at the moment.
    from: Option<(String, Client)>,
    /// Where they did not come from, which was told.
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
                    // A refusal comes at once.
                    std::thread::park_timeout(SLICE);
                }
            }
        }
    }

    /// Waits for newer weights where they are to come from; whether some came.
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

    /// Takes the weights from the run's server, if those of the run have been newer for long, or do not come where
    /// they are to come from.
    fn catch_up(&mut self, source: &Source, failed: Option<RlError>) {
        let (is_behind, is_late) = {
            let state = self.shared.state.lock();
            (state.held < state.newest, state.behind_since.is_some_and(|since| since.elapsed() >= LATE))
        };
        // Nobody gives the first ones into a box that was not read yet, nor those to a node that has none.
        let has_none = self.shared.state.lock().held.is_none();
        if !is_behind || !(is_late || has_none || failed.is_some() || source.reader.is_none()) {
            return;
        }
        if !has_none && source.address.is_some() && self.lost.as_ref() != Some(source) {
            let address = source.address.as_deref().unwrap_or_default();
            let why =
                failed.map_or_else(|| "nothing has come for a while".to_owned(), |error| error.to_string());
            tracing::warn!(
                "no weights come from the node at {address} ({why}): taking them from the run's server"
            );
            self.lost = Some(source.clone());
        }
        if let Err(error) = weights::get(&self.run, TIMEOUT).and_then(|packed| self.shared.keep(&packed)) {
            // It is told elsewhere that the server is lost.
            tracing::debug!("no weights from the run's server: {error}");
        }
    }

    fn note_back(&mut self, source: &Source) {
        if self.lost.as_ref() == Some(source) {
            self.lost = None;
            tracing::info!(
                "weights come from the node at {} again",
                source.address.as_deref().unwrap_or_default()
            );
        }
    }
}

impl Relayed {
    /// Keeps weights that are newer than those that are there; whether they are.
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

/// The tables of weights that each node has.
pub(super) fn tables() -> impl Iterator<Item = relive_table::TableConfig> {
    std::iter::once(weights::table()).chain(boxes_of_nodes())
}
