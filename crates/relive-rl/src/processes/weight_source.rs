//! The source of a worker's weights: its node, which pushes them, or the run's server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use relive_client::blocking::Client;

use crate::contracts::WeightStore;
use crate::nodes::worker_weight_table;
use crate::tables::weights::{self, Packed, Stamp};
use crate::{Result, threads};

/// How long one wait at a box lasts before the worker checks whether to continue.
const SLICE: Duration = Duration::from_millis(250);

/// How far a node's weights may lag behind the run's server before the worker takes its weights from the server.
const LATE: Duration = Duration::from_secs(1);

/// The weights of a worker, and the sources of newer weights.
pub(super) struct WeightSource {
    run: Client,
    store: WeightStore,
    node_connection: Option<NodeConnection>,
    shared: Arc<Arrivals>,
}

/// The connection to the worker's node.
struct NodeConnection {
    client: Client,
    reader: String,
}

#[derive(Default)]
struct Arrivals {
    state: Mutex<Arrived>,
    arrived: Condvar,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Arrived {
    held: Option<Stamp>,
    /// When the node began to lag behind.
    behind_since: Option<Instant>,
    /// Whether the node's failure to provide the run's weights has been logged.
    is_lost: bool,
}

/// Receives the weights that the node pushes, until dropped.
pub(super) struct WeightFeed {
    shared: Arc<Arrivals>,
    thread: Option<JoinHandle<()>>,
}

impl WeightSource {
    /// Fetches the first weights, from the worker's node if it has one.
    ///
    /// # Errors
    /// The run's server is lost.
    pub(super) fn begin(run: &Client, node_connection: Option<&Client>, number: u32) -> Result<WeightSource> {
        let node_connection = node_connection
            .map(|client| NodeConnection { client: client.clone(), reader: worker_weight_table(number) });
        let source = WeightSource {
            run: run.clone(),
            store: WeightStore::default(),
            node_connection,
            shared: Arc::new(Arrivals::default()),
        };
        let first = source
            .node_connection
            .as_ref()
            .and_then(|node_connection| weights::get(&node_connection.client, LATE).ok());
        let first = first.map_or_else(|| weights::get(run, weights::TIMEOUT), Ok)?;
        source.shared.offer(&source.store, &first)?;
        Ok(source)
    }

    /// Returns the weights that the worker's policies use.
    pub(super) fn store(&self) -> &WeightStore {
        &self.store
    }

    /// Returns whether weights are pushed, in which case checks for newer weights between two items are unnecessary.
    pub(super) fn is_pushed(&self) -> bool {
        self.node_connection.is_some()
    }

    /// Receives, on its own thread, the weights that the node pushes. Returns `None` without a node.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn feed(&self) -> Result<Option<WeightFeed>> {
        let Some(NodeConnection { client, reader }) = &self.node_connection else { return Ok(None) };
        let (client, reader, store) = (client.clone(), reader.clone(), self.store.clone());
        let shared = Arc::clone(&self.shared);
        shared.is_over.store(false, Ordering::Relaxed);
        let own = Arc::clone(&shared);
        let work = move || {
            while !own.is_over.load(Ordering::Relaxed) {
                let taken = weights::wait(&client, &reader, SLICE);
                let taken =
                    taken.and_then(|packed| packed.map_or(Ok(false), |packed| own.offer(&store, &packed)));
                match taken {
                    Ok(true) => own.note_back(),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::debug!("no weights from the node: {error}");
                        // A rejected call returns immediately.
                        std::thread::park_timeout(SLICE);
                    }
                }
            }
        };
        let thread = threads::spawn("relive-rl-weights", work)?;
        Ok(Some(WeightFeed { shared, thread: Some(thread) }))
    }

    /// Obtains weights at least as new as `wanted`, from any source, because a round requires them.
    ///
    /// # Errors
    /// The run's server is lost.
    pub(super) fn require(&self, wanted: Stamp) -> Result<()> {
        let mut state = self.shared.state.lock();
        let until = Instant::now() + LATE;
        let waits = self.node_connection.is_some() && !state.is_lost;
        while waits && state.held < Some(wanted) {
            if self.shared.arrived.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        let exists = state.held >= Some(wanted);
        drop(state);
        if exists { Ok(()) } else { self.fetch() }
    }

    /// Fetches weights as new as `newest`, unless the worker has them or they are on their way through the node.
    ///
    /// # Errors
    /// The run's server is lost.
    pub(super) fn note_newest(&self, newest: Stamp) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.held >= Some(newest) {
            state.behind_since = None;
            return Ok(());
        }
        let since = *state.behind_since.get_or_insert_with(Instant::now);
        let waits = self.node_connection.is_some() && !state.is_lost && since.elapsed() < LATE;
        drop(state);
        if waits { Ok(()) } else { self.fetch() }
    }

    /// Fetches the newest weights from the run's server.
    fn fetch(&self) -> Result<()> {
        let packed = weights::get(&self.run, weights::TIMEOUT)?;
        if self.node_connection.is_some() && !std::mem::replace(&mut self.shared.state.lock().is_lost, true) {
            tracing::warn!("no weights arrive from the node: getting them from the run's server");
        }
        self.shared.offer(&self.store, &packed).map(drop)
    }
}

impl Arrivals {
    /// Stores weights if they are newer than the current ones. Returns whether they are.
    fn offer(&self, store: &WeightStore, packed: &Packed) -> Result<bool> {
        if self.state.lock().held >= Some(packed.stamp) {
            return Ok(false);
        }
        let weights = packed.unpack()?;
        let mut state = self.state.lock();
        if state.held >= Some(packed.stamp) {
            return Ok(false);
        }
        store.publish(weights);
        (state.held, state.behind_since) = (Some(packed.stamp), None);
        drop(state);
        self.arrived.notify_all();
        Ok(true)
    }

    fn note_back(&self) {
        if std::mem::take(&mut self.state.lock().is_lost) {
            tracing::info!("weights arrive from the node again");
        }
    }
}

impl Drop for WeightFeed {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic has already been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;
    use crate::Weights;

    fn client() -> Client {
        let tables = [weights::table(), weights::fresh("worker-3")];
        let engine = tables.into_iter().fold(Engine::builder(), relive_engine::EngineBuilder::table);
        Client::in_process(engine.build().unwrap()).unwrap()
    }

    fn put(client: &Client, epoch: u64, version: u64) -> Stamp {
        let packed = Packed::of(&Weights::new(version, []), epoch).unwrap();
        packed.put(client, &["worker-3".to_owned()], &|| true).unwrap();
        packed.stamp
    }

    fn version(source: &WeightSource) -> u64 {
        source.store().newest().unwrap().version()
    }

    #[test]
    fn weights_of_the_node_are_preferred_over_those_of_the_run() {
        let (run, node) = (client(), client());
        put(&run, 1, 5);
        put(&node, 1, 4);
        let source = WeightSource::begin(&run, Some(&node), 3).unwrap();
        assert_eq!(version(&source), 4);
        let feeding = source.feed().unwrap();
        source.require(put(&node, 1, 6)).unwrap();
        assert!(version(&source) == 6 && !source.shared.state.lock().is_lost, "they were pushed");
        let wanted = put(&run, 1, 7);
        source.note_newest(wanted).unwrap();
        assert_eq!(version(&source), 6, "they may be on their way");
        source.require(wanted).unwrap();
        assert!(version(&source) == 7 && source.shared.state.lock().is_lost);
        source.note_newest(put(&run, 1, 8)).unwrap();
        assert_eq!(version(&source), 8, "it no longer waits for the node");
        put(&node, 1, 3);
        let wanted = put(&node, 1, 9);
        while version(&source) != 9 || source.shared.state.lock().is_lost {
            std::thread::yield_now();
        }
        drop(feeding);
        // A driver that resumes from a checkpoint repeats an earlier version, which still counts as newer.
        assert!(put(&run, 2, 2) > wanted);
        source.fetch().unwrap();
        assert_eq!(version(&source), 2);
    }

    #[test]
    fn a_worker_without_a_node_fetches_only_newer_weights() {
        let run = client();
        let first = put(&run, 1, 5);
        let source = WeightSource::begin(&run, None, 0).unwrap();
        put(&run, 1, 6);
        source.note_newest(first).unwrap();
        assert_eq!(version(&source), 5);
        source.note_newest(Stamp { epoch: 1, version: 6 }).unwrap();
        assert!(version(&source) == 6 && source.feed().unwrap().is_none());
    }
}
