//! The set of servers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::address::{MAX_SERVERS, Source};
use super::changes::{ChangeLog, ServerChange, ServerEvent, ServerStanding, ServerState};
use super::owners::{Owners, ServerNumber};
use super::server::Server;
use super::{resolve, watch as watching};
use crate::client::{Client, ClientOptions, Proposals};
use crate::deadline::Deadline;
use crate::{Error, ErrorKind, Result};

/// Many servers, watched for as long as this lives.
pub(crate) struct Many {
    /// The addresses as they were given.
    text: String,
    pub(super) options: ClientOptions,
    pub(super) runtime: Handle,
    servers: RwLock<Arc<[Arc<Server>]>>,
    numbers: Mutex<ServerNumber>,
    pub(super) owners: Owners,
    pub(super) proposals: Arc<Proposals>,
    log: Mutex<ChangeLog>,
    /// Grows with each change: of the set, of a standing, of sizes.
    version: watch::Sender<u64>,
    /// Grows when a server joins, so that writers look whether to move.
    pub(super) joined: AtomicU64,
    /// Where the next writer of equals goes.
    pub(super) rotation: AtomicUsize,
    pub(super) placing: Mutex<()>,
    /// Servers are looked at one by one when they join: two addresses may be one.
    pub(super) joining: Mutex<()>,
    /// Names that were not resolved yet.
    unresolved: AtomicUsize,
    settled: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Many {
    /// Must be called inside a Tokio runtime, whose tasks watch the servers.
    pub(crate) fn start(
        sources: Vec<Source>,
        options: &ClientOptions,
        proposals: Arc<Proposals>,
    ) -> Result<Arc<Many>> {
        let text = sources.iter().map(Source::text).collect::<Vec<_>>().join(",");
        let names: Vec<String> = sources.iter().filter_map(Source::name).collect();
        let many = Arc::new(Many {
            text,
            options: options.clone(),
            runtime: Handle::current(),
            servers: RwLock::default(),
            numbers: Mutex::new(0),
            owners: Owners::default(),
            proposals,
            log: Mutex::default(),
            version: watch::Sender::new(0),
            joined: AtomicU64::new(0),
            rotation: AtomicUsize::new(0),
            placing: Mutex::new(()),
            joining: Mutex::new(()),
            unresolved: AtomicUsize::new(names.len()),
            settled: AtomicBool::new(false),
            tasks: Mutex::default(),
        });
        for source in sources {
            if let Source::Fixed(address) = source {
                let client = Client::connect_one(&address, options.clone())?;
                many.add(address, client);
            }
        }
        for name in names {
            many.spawn(resolve::run(Arc::downgrade(&many), name));
        }
        Ok(many)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn servers(&self) -> Arc<[Arc<Server>]> {
        Arc::clone(&self.servers.read())
    }

    /// The servers that take part.
    pub(super) fn up(&self) -> Vec<Arc<Server>> {
        self.servers().iter().filter(|server| server.is_up()).cloned().collect()
    }

    pub(super) fn server(&self, number: ServerNumber) -> Option<Arc<Server>> {
        self.servers().iter().find(|server| server.number == number).cloned()
    }

    /// A client of the one server at `address`.
    pub(crate) fn client_of(&self, address: &str) -> Option<Client> {
        self.servers().iter().find(|server| server.address() == address).map(|server| server.client().clone())
    }

    pub(crate) fn states(&self) -> Vec<ServerState> {
        self.servers().iter().map(|server| server.state()).collect()
    }

    pub(crate) fn changes(&self) -> Vec<ServerChange> {
        self.log.lock().all()
    }

    /// Adds a server, and watches it.
    pub(super) fn add(self: &Arc<Self>, address: String, client: Client) {
        let server = {
            let mut numbers = self.numbers.lock();
            *numbers += 1;
            Arc::new(Server::new(*numbers, address, client))
        };
        {
            let mut servers = self.servers.write();
            if servers.len() >= MAX_SERVERS {
                tracing::warn!(target: "relive", server = server.address(), "is left out: {MAX_SERVERS} servers are the most");
                return;
            }
            *servers = servers.iter().cloned().chain([Arc::clone(&server)]).collect();
        }
        self.spawn(watching::run(Arc::downgrade(self), server));
        self.tell();
    }

    /// Removes a server.
    pub(super) fn remove(&self, server: &Arc<Server>, reason: &str) {
        server.retired.store(true, Ordering::Relaxed);
        server.failed(reason);
        server.poke.notify_one();
        {
            let mut servers = self.servers.write();
            *servers = servers.iter().filter(|other| other.number != server.number).cloned().collect();
        }
        self.log.lock().add(server.address(), ServerEvent::Removed, reason);
        tracing::info!(target: "relive", "the server at {} is no longer one of {}: {reason}", server.address(), self.text);
        self.tell();
    }

    /// Takes note that a server has answered.
    pub(super) fn answered(&self, server: &Server, asked: Instant, tables: &[relive_table::TableInfo]) {
        if server.answered(asked, tables) {
            self.joined.fetch_add(1, Ordering::Relaxed);
            self.log.lock().add(server.address(), ServerEvent::Joined, "it answers");
            tracing::info!(target: "relive", "the server at {} of {} takes part", server.address(), self.text);
        }
        self.tell();
    }

    /// Takes note that a server has failed. Nobody waits for it any more; its watcher looks at once whether it is there.
    pub(crate) fn failed(&self, server: &Server, reason: &str) {
        if server.failed(reason) {
            self.log.lock().add(server.address(), ServerEvent::Left, reason);
            let servers = self.servers();
            let away = servers.iter().filter(|server| server.is_away()).count();
            tracing::warn!(
                target: "relive",
                "the server at {} is left out until it answers again: {reason}; {away} of {} servers are left out",
                server.address(),
                servers.len()
            );
            server.poke.notify_one();
        }
        self.tell();
    }

    /// What changes with each change.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn tell(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes note that a name was resolved for the first time, or could not be.
    pub(super) fn resolved_one(&self) {
        self.unresolved.fetch_sub(1, Ordering::Relaxed);
        self.tell();
    }

    /// Whether all servers of the beginning were asked once, so that it is known who takes part.
    pub(super) fn is_settled(&self) -> bool {
        if self.settled.load(Ordering::Relaxed) {
            return true;
        }
        let settled = self.unresolved.load(Ordering::Relaxed) == 0
            && self.servers().iter().all(|server| server.standing() != ServerStanding::Unknown);
        self.settled.fetch_or(settled, Ordering::Relaxed);
        settled
    }

    /// Waits until it is known who takes part and somebody does; gives them, and what is left of the time.
    pub(super) async fn wait_for_one(
        &self,
        operation: &str,
        timeout: Duration,
    ) -> Result<(Vec<Arc<Server>>, Duration)> {
        let deadline = Deadline::after(timeout);
        let mut version = self.watch();
        let waiting = async {
            loop {
                version.borrow_and_update();
                let up = self.up();
                if self.is_settled() && !up.is_empty() {
                    return up;
                }
                if version.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let found = deadline.run(waiting).await;
        found.map(|up| (up, deadline.left().unwrap_or(timeout))).ok_or_else(|| {
            let text = format!("{operation}: Deadline Exceeded after {timeout:?}: {}", self.why_nobody());
            Error::new(ErrorKind::Timeout, text)
        })
    }

    /// Waits until all servers were asked once; gives each once, whatever addresses it has, and what is left of the time.
    pub(super) async fn settle(
        &self,
        operation: &str,
        timeout: Duration,
    ) -> Result<(Vec<Arc<Server>>, Duration)> {
        let deadline = Deadline::after(timeout);
        let mut version = self.watch();
        let settled = async {
            loop {
                version.borrow_and_update();
                if self.is_settled() {
                    return;
                }
                if version.changed().await.is_err() {
                    return;
                }
            }
        };
        match deadline.run(settled).await {
            Some(()) if self.servers().is_empty() => {
                Err(Error::new(ErrorKind::Unavailable, format!("{operation}: {}", self.why_nobody())))
            }
            Some(()) => {
                let (servers, up) = (self.servers(), self.up());
                let is_told = |server: &Arc<Server>| {
                    let is_it =
                        |other: &Arc<Server>| other.number != server.number && other.is_the_same_as(server);
                    !server.is_up() && up.iter().any(is_it)
                };
                let once = servers.iter().filter(|server| !is_told(server)).cloned().collect();
                Ok((once, deadline.left().unwrap_or(timeout)))
            }
            None => {
                let text = format!("{operation}: Deadline Exceeded after {timeout:?}: {}", self.why_nobody());
                Err(Error::new(ErrorKind::Timeout, text))
            }
        }
    }

    /// Why no server takes part, for people.
    pub(super) fn why_nobody(&self) -> String {
        let states = self.states();
        let reasons: Vec<String> = states
            .iter()
            .filter(|state| !state.reason.is_empty())
            .map(|state| format!("{}: {}", state.address, state.reason))
            .collect();
        match (states.len(), reasons.len()) {
            (0, _) => format!("no server is known for {}: the name has no addresses", self.text),
            (_, 0) => format!("no server of {} has answered yet", self.text),
            _ => format!("no server there of {}: {}", self.text, reasons.join("; ")),
        }
    }

    pub(crate) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    /// Waits for `future` on this thread, which must not be one of a runtime.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(self.runtime.spawn(task));
    }
}

/// [`Many`], as long as somebody uses it.
pub(super) type Used = Weak<Many>;

impl Drop for Many {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(JoinHandle::abort);
    }
}
