//! A node: it joins a run, runs the workers with the numbers that the driver assigns to it, and passes weights on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_table::TableConfig;

use super::heartbeat::{self, NodeHeartbeat};
use super::list::{Assignment, NodeList};
use super::relay::{self, Relay};
use super::{Connect, worker_weight_table};
use crate::identity::{Comparison, Identity};
use crate::limits::{MAX_WORKERS, NODE_GONE};
use crate::stop::Stop;
use crate::tables::item::is_loss;
use crate::tables::job::{self, Job};
use crate::tables::silence::{WatchTarget, watched};
use crate::tables::weights;
use crate::{Result, RlError, seeds};

/// The time between two checks on the run.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The time between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// How long a node that is not on the list keeps its workers. By then, a new driver has received heartbeats from all
/// nodes.
const UNLISTED: Duration = NODE_GONE.saturating_mul(2);

/// How long a node waits for numbers before it logs that none are available.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A node of a run.
pub struct Node<'a> {
    /// The client for the run's server.
    pub client: &'a Client,
    /// The name in logs, usually the name of the machine.
    pub name: String,
    /// The host name of the machine.
    pub host: String,
    /// The address of [its tables](node_tables) for other nodes; `None` if it does not serve them.
    pub address: Option<String>,
    /// The maximum number of the node's workers.
    pub actors: u32,
    /// The tables that the node serves, created from [`node_tables`].
    pub engine: Engine,
    /// Connects to another node by its address.
    pub connect: Connect,
    /// Stops it early.
    pub stop: &'a Stop,
}

/// Starts and stops the workers of a node.
pub trait NodeWorkers {
    /// From now on, runs exactly the workers with the given numbers.
    ///
    /// # Errors
    /// A worker cannot be started.
    fn hold(&mut self, numbers: &[u32]) -> Result<()>;

    /// Restarts workers that have ended, and returns the current state.
    ///
    /// # Errors
    /// Further restarts are pointless.
    fn watch(&mut self) -> Result<Running>;
}

/// The workers of a node at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// The number of running workers.
    pub workers: u32,
    /// The number of restarts.
    pub restarts: u64,
}

/// The outcome of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hosted {
    /// The maximum number of workers at any time.
    pub workers: u32,
    /// The number of restarts.
    pub restarts: u64,
}

/// Returns the tables that each node serves: the newest weights, and boxes in which other nodes wait for them.
pub fn node_tables() -> impl Iterator<Item = TableConfig> {
    relay::tables()
}

/// Acts for the run on a server until the run is over, with as many workers as the driver assigns numbers. Waits for a
/// missing server or driver, and logs the wait. Also logs if the driver assigns fewer numbers than requested.
///
/// # Errors
/// The run uses another version of Relive, the server has a different run than before, or a worker cannot continue.
pub fn host(node: &Node<'_>, workers: &mut dyn NodeWorkers) -> Result<Hosted> {
    if !(1..=MAX_WORKERS).contains(&node.actors) {
        return Err(RlError::setting("the number of actors of a node", node.actors, "from 1 to 65536"));
    }
    let own = Client::in_process(node.engine.clone())?;
    let relay = Relay::start(node.client, &own, &node.connect)?;
    let mut hosting = Hosting {
        node,
        relay,
        workers,
        id: random_id(),
        of: None,
        places: Vec::new(),
        listed: Instant::now(),
        beat: None,
        running: Running::default(),
        hosted: Hosted::default(),
        is_logged: false,
        has_logged_error: false,
        begun: Instant::now(),
    };
    let ended = watched(node.client, WatchTarget::Driver, || hosting.work());
    hosting.leave();
    ended.map(|()| hosting.hosted)
}

/// Returns a random id, never 0.
fn random_id() -> u64 {
    seeds::unrepeatable().max(1)
}

struct Hosting<'a, 'w> {
    node: &'a Node<'a>,
    relay: Relay,
    workers: &'w mut dyn NodeWorkers,
    id: u64,
    /// The joined run.
    of: Option<Identity>,
    places: Vec<u32>,
    /// When the node was last on the list.
    listed: Instant,
    /// When the node last sent a heartbeat.
    beat: Option<Instant>,
    running: Running,
    hosted: Hosted,
    /// Whether the lack of numbers has been logged.
    is_logged: bool,
    /// Whether an unreadable list has been logged.
    has_logged_error: bool,
    begun: Instant,
}

impl Hosting<'_, '_> {
    fn work(&mut self) -> Result<()> {
        while !self.node.stop.is_stopped() {
            match self.turn() {
                Ok(true) => return Ok(()),
                Err(error) if !is_loss(&error) => return Err(error),
                _ => {}
            }
            self.running = self.workers.watch()?;
            self.hosted.workers = self.hosted.workers.max(self.running.workers);
            self.hosted.restarts = self.running.restarts;
            std::thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    /// Checks the run once. Returns whether it is over.
    fn turn(&mut self) -> Result<bool> {
        let Some(job) = job::get(self.node.client)? else { return Ok(false) };
        if job.now.is_over {
            return Ok(true);
        }
        self.expect_same(&job)?;
        self.relay.note_newest(job.now.stamp());
        if self.beat.is_none_or(|beat| beat.elapsed() >= BEAT) {
            self.heartbeat(false).send(self.node.client)?;
            self.beat = Some(Instant::now());
        }
        let Some(list) = self.list()? else { return Ok(false) };
        match list.of(self.id) {
            Some(entry) => self.follow(entry, list.most)?,
            None if self.listed.elapsed() >= UNLISTED => self.hold(&[])?,
            None => {}
        }
        Ok(false)
    }

    /// Returns the newest list, or `None` if the table's item is not a list. The driver also notices an invalid item,
    /// and rewrites it.
    fn list(&mut self) -> Result<Option<NodeList>> {
        let found = NodeList::get(self.node.client);
        match found {
            Err(error) if !is_loss(&error) && !matches!(error, RlError::OtherVersion { .. }) => {
                if !std::mem::replace(&mut self.has_logged_error, true) {
                    tracing::warn!("ignored an invalid list in the table of nodes: {error}");
                }
                Ok(None)
            }
            list => {
                let list = list?;
                self.has_logged_error = false;
                Ok(Some(list.unwrap_or_default()))
            }
        }
    }

    /// # Errors
    /// The run is not the one that was joined, or has a different version.
    fn expect_same(&mut self, job: &Job) -> Result<()> {
        if let Some(of) = &self.of {
            return of.expect(
                &job.identity,
                Comparison {
                    place: "this node",
                    saved: "the node's run",
                    asked: "the server's run",
                    advice: "the server has started another run; start a new node for it",
                },
            );
        }
        if self.node.client.server_info()?.table(heartbeat::TABLE).is_none() {
            let (here, there) =
                (env!("CARGO_PKG_VERSION").to_owned(), "an older version, which has no nodes".to_owned());
            return Err(RlError::OtherVersion { here, there });
        }
        self.of = Some(job.identity.clone());
        Ok(())
    }

    fn follow(&mut self, entry: &Assignment, most: Option<u32>) -> Result<()> {
        self.listed = Instant::now();
        self.relay.follow(&entry.source);
        self.hold(&entry.places)?;
        let (has, wants) = (self.places.len(), self.node.actors);
        if !self.is_logged
            && has < usize::try_from(wants).unwrap_or(usize::MAX)
            && self.begun.elapsed() >= TIMEOUT
        {
            self.is_logged = true;
            let why = match most {
                Some(most) => {
                    format!("the run has synchronous rounds, for exactly {most} actors")
                }
                None => "no more workers can join".to_owned(),
            };
            tracing::info!(
                "this node has places for {has} of its {wants} workers: {why}; it takes over the places of nodes that leave"
            );
        }
        Ok(())
    }

    /// Runs the workers with the given numbers.
    fn hold(&mut self, numbers: &[u32]) -> Result<()> {
        if self.places == numbers {
            return Ok(());
        }
        let boxes = numbers.iter().map(worker_weight_table).collect();
        let (before, engine) = (std::mem::take(&mut self.places), &self.node.engine);
        self.relay.serve(boxes, || {
            let user = Arc::from("the node");
            for gone in before.iter().filter(|number| !numbers.contains(number)) {
                engine
                    .drop_table(&weights::fresh_name(&worker_weight_table(gone)), &user)
                    .map_err(refused)?;
            }
            for new in numbers.iter().filter(|number| !before.contains(number)) {
                engine.add_table(weights::fresh(&worker_weight_table(new)), &user).map_err(refused)?;
            }
            Ok(())
        })?;
        self.places = numbers.to_vec();
        // The next heartbeat reports the change.
        self.beat = None;
        self.workers.hold(numbers)
    }

    fn heartbeat(&self, leaves: bool) -> NodeHeartbeat {
        let Node { name, host, address, actors, .. } = self.node;
        NodeHeartbeat {
            id: self.id,
            name: name.clone(),
            host: host.clone(),
            address: address.clone(),
            wants: *actors,
            holds: self.places.clone(),
            workers: self.running.workers,
            restarts: self.running.restarts,
            version: self.relay.version(),
            leaves,
        }
    }

    /// Returns the node's numbers to the driver, if the server is still available.
    fn leave(&self) {
        if let (Some(_), Err(error)) = (&self.of, self.heartbeat(true).send(self.node.client)) {
            tracing::debug!("cannot report that this node leaves: {error}");
        }
    }
}

fn refused(error: relive_engine::EngineError) -> RlError {
    RlError::state("a node's tables", error)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use relive_engine::EngineBuilder;
    use relive_env::{Environment, make};

    use super::super::list::put_bytes;
    use super::super::{Registry, tables};
    use super::*;
    use crate::tables::job::JobProgress;

    /// Records the numbers passed to `hold`, and each call to `watch`.
    struct Recorded(Sender<Option<Vec<u32>>>);

    impl NodeWorkers for Recorded {
        fn hold(&mut self, numbers: &[u32]) -> Result<()> {
            self.0.send(Some(numbers.to_vec())).map_err(|error| RlError::Foreign(error.to_string()))
        }

        fn watch(&mut self) -> Result<Running> {
            self.0.send(None).map_err(|error| RlError::Foreign(error.to_string()))?;
            Ok(Running::default())
        }
    }

    fn held(calls: &Receiver<Option<Vec<u32>>>, looks: usize) -> Vec<u32> {
        let all = calls
            .iter()
            .filter(|calls| calls.is_none() || calls.as_ref().is_some_and(|held| !held.is_empty()));
        all.take(looks).flatten().next().unwrap_or_default()
    }

    #[test]
    fn an_invalid_node_list_is_ignored() {
        let engine = tables().chain([job::table()]).fold(Engine::builder(), EngineBuilder::table);
        let client = Client::in_process(engine.build().unwrap()).unwrap();
        let spec = make("catch/0", 1).unwrap().spec().clone();
        let identity = Identity::new(("none", Vec::new()), "catch/0", &spec, 1);
        let put = |is_over| {
            job::put(&client, &identity, &JobProgress { is_over, ..JobProgress::default() }, &|| true)
                .unwrap();
        };
        put(false);
        put_bytes(&client, b"no list".to_vec(), &|| true).unwrap();
        let (sender, receiver) = channel();
        let own = node_tables().fold(Engine::builder(), EngineBuilder::table).build().unwrap();
        let run = client.clone();
        let node = std::thread::spawn(move || {
            let stop = Stop::new();
            let connect: Connect = Arc::new(|_| Err(RlError::Stopped));
            let (name, host_name) = ("a".to_owned(), "b".to_owned());
            let node = Node {
                client: &run,
                name,
                host: host_name,
                address: None,
                actors: 2,
                engine: own,
                connect,
                stop: &stop,
            };
            host(&node, &mut Recorded(sender))
        });
        assert!(held(&receiver, 3).is_empty(), "it continues without workers");
        let registry = Registry::new(0, 2, false);
        registry.update(&client, &|| true).unwrap();
        while !registry.has_some() {
            registry.update(&client, &|| true).unwrap();
        }
        assert_eq!(held(&receiver, 100), [0, 1]);
        put(true);
        while receiver.recv().is_ok() {}
        node.join().unwrap().unwrap();
    }
}
