//! The set of servers that one client uses.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use relive_connection::{ClientOptions, Connection, Deadline, Error, ErrorKind, Proposals, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::address::MAX_SERVERS;
use crate::changes::{ChangeLog, ServerChange, ServerEvent, ServerStanding, ServerState};
use crate::member::Member;
use crate::owners::{MemberNumber, Owners};

/// A set of servers, which tasks watch while this value exists.
pub struct Fleet {
    /// The addresses as given by the user.
    text: String,
    pub(crate) options: ClientOptions,
    runtime: Handle,
    servers: RwLock<Arc<[Arc<Member>]>>,
    numbers: Mutex<MemberNumber>,
    pub(crate) owners: Owners,
    pub(crate) proposals: Arc<Proposals>,
    log: Mutex<ChangeLog>,
    /// A version that increases with each change to the set, to a server's standing or to table sizes.
    version: watch::Sender<u64>,
    /// Increases when a server joins, which makes writers check whether their streams should move.
    pub(crate) joined: AtomicU64,
    /// The position from which the next writer's server is chosen among equals.
    pub(crate) rotation: AtomicUsize,
    pub(crate) assigning: Mutex<()>,
    /// A lock under which servers join one by one, because two addresses may belong to the same server.
    pub(crate) joining: Mutex<()>,
    /// The number of names that have not been resolved yet.
    unresolved: AtomicUsize,
    settled: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Fleet {
    /// Creates an empty set, to which servers of `names` unresolved names may be added. Must be called inside a Tokio
    /// runtime, which runs the tasks that watch the servers.
    pub(crate) fn new(
        text: String,
        names: usize,
        options: ClientOptions,
        proposals: Arc<Proposals>,
    ) -> Arc<Fleet> {
        Arc::new(Fleet {
            text,
            options,
            runtime: Handle::current(),
            servers: RwLock::default(),
            numbers: Mutex::new(0),
            owners: Owners::default(),
            proposals,
            log: Mutex::default(),
            version: watch::Sender::new(0),
            joined: AtomicU64::new(0),
            rotation: AtomicUsize::new(0),
            assigning: Mutex::new(()),
            joining: Mutex::new(()),
            unresolved: AtomicUsize::new(names),
            settled: AtomicBool::new(false),
            tasks: Mutex::default(),
        })
    }

    /// Returns the addresses as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns all servers, whether or not they participate.
    pub fn members(&self) -> Arc<[Arc<Member>]> {
        Arc::clone(&self.servers.read())
    }

    /// Returns the servers that participate.
    pub(crate) fn up(&self) -> Vec<Arc<Member>> {
        self.members().iter().filter(|server| server.is_up()).cloned().collect()
    }

    pub(crate) fn member(&self, number: MemberNumber) -> Option<Arc<Member>> {
        self.members().iter().find(|server| server.number() == number).cloned()
    }

    /// Returns the connection to the server at `address`.
    pub fn connection_to(&self, address: &str) -> Option<Connection> {
        let members = self.members();
        members.iter().find(|server| server.address() == address).map(|server| server.connection().clone())
    }

    /// Returns the current state of the servers.
    pub fn states(&self) -> Vec<ServerState> {
        self.members().iter().map(|server| server.state()).collect()
    }

    /// Returns the last 256 changes to the set and to standings, oldest first.
    pub fn changes(&self) -> Vec<ServerChange> {
        self.log.lock().all()
    }

    /// Adds a server. Returns `None` if the limit has been reached.
    pub(crate) fn add(&self, address: String, connection: Connection) -> Option<Arc<Member>> {
        let server = {
            let mut numbers = self.numbers.lock();
            *numbers += 1;
            Arc::new(Member::new(*numbers, address, connection))
        };
        {
            let mut servers = self.servers.write();
            if servers.len() >= MAX_SERVERS {
                tracing::warn!(target: "relive", server = server.address(), "is not used: the limit is {MAX_SERVERS} servers");
                return None;
            }
            *servers = servers.iter().cloned().chain([Arc::clone(&server)]).collect();
        }
        self.notify();
        Some(server)
    }

    /// Removes a server.
    pub(crate) fn remove(&self, server: &Arc<Member>, reason: &str) {
        server.retired.store(true, Ordering::Relaxed);
        server.failed(reason);
        server.refresh_now();
        {
            let mut servers = self.servers.write();
            *servers = servers.iter().filter(|other| other.number() != server.number()).cloned().collect();
        }
        self.log.lock().add(server.address(), ServerEvent::Removed, reason);
        tracing::info!(target: "relive", "the server at {} is no longer one of {}: {reason}", server.address(), self.text);
        self.notify();
    }

    /// Records that a server has answered.
    pub(crate) fn answered(
        &self,
        server: &Member,
        requested_at: Instant,
        tables: &[relive_table::TableInfo],
    ) {
        if server.answered(requested_at, tables) {
            self.joined.fetch_add(1, Ordering::Relaxed);
            self.log.lock().add(server.address(), ServerEvent::Joined, "it answers");
            tracing::info!(target: "relive", "using the server at {} (one of {})", server.address(), self.text);
        }
        self.notify();
    }

    /// Records that a server has failed. Calls no longer wait for it, and its watcher immediately checks whether it is
    /// reachable.
    pub fn failed(&self, server: &Member, reason: &str) {
        if server.failed(reason) {
            self.log.lock().add(server.address(), ServerEvent::Left, reason);
            let servers = self.members();
            let away = servers.iter().filter(|server| server.is_away()).count();
            tracing::warn!(
                target: "relive",
                "not using the server at {} until it answers again: {reason}; {away} of {} servers are not used",
                server.address(),
                servers.len()
            );
            server.refresh_now();
        }
        self.notify();
    }

    /// Watches a number that increases with each change to the set, to a server's standing or to table sizes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Records which server has an item.
    pub fn note_owner(&self, key: u64, server: MemberNumber) {
        self.owners.note(key, server);
    }

    fn notify(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Records the first attempt to resolve a name, whether or not it succeeded.
    pub(crate) fn resolved_one(&self) {
        self.unresolved.fetch_sub(1, Ordering::Relaxed);
        self.notify();
    }

    /// Returns whether all initial servers have been queried once, so that the participating servers are known.
    pub fn is_settled(&self) -> bool {
        if self.settled.load(Ordering::Relaxed) {
            return true;
        }
        let settled = self.unresolved.load(Ordering::Relaxed) == 0
            && self.members().iter().all(|server| server.standing() != ServerStanding::Unknown);
        self.settled.fetch_or(settled, Ordering::Relaxed);
        settled
    }

    /// Waits until the participating servers are known and there is at least one. Returns them and the remaining time.
    ///
    /// # Errors
    /// `Timeout` with the reason, if no server participates within `timeout`.
    pub async fn wait_for_one(
        &self,
        operation: &str,
        timeout: Duration,
    ) -> Result<(Vec<Arc<Member>>, Duration)> {
        let deadline = Deadline::after(timeout);
        let up = || Some(self.up()).filter(|up| self.is_settled() && !up.is_empty());
        let found = deadline.run(self.wait_for(up)).await;
        found.map(|up| (up, deadline.left().unwrap_or(timeout))).ok_or_else(|| {
            let text =
                format!("{operation}: Deadline Exceeded after {timeout:?}: {}", self.no_server_reason());
            Error::new(ErrorKind::Timeout, text)
        })
    }

    /// Waits until `ready` has a value. `ready` is called again whenever a server's state changes.
    async fn wait_for<T>(&self, ready: impl Fn() -> Option<T>) -> T {
        let mut version = self.watch();
        loop {
            version.borrow_and_update();
            if let Some(value) = ready() {
                return value;
            }
            if version.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until all servers have been queried once. Returns each distinct server once, and the remaining time.
    pub(crate) async fn settle(
        &self,
        operation: &str,
        timeout: Duration,
    ) -> Result<(Vec<Arc<Member>>, Duration)> {
        let deadline = Deadline::after(timeout);
        match deadline.run(self.wait_for(|| self.is_settled().then_some(()))).await {
            Some(()) if self.members().is_empty() => {
                Err(Error::new(ErrorKind::Unavailable, format!("{operation}: {}", self.no_server_reason())))
            }
            Some(()) => {
                let (servers, up) = (self.members(), self.up());
                let is_duplicate = |server: &Arc<Member>| {
                    let is_same_server = |other: &Arc<Member>| {
                        other.number() != server.number() && other.is_the_same_as(server)
                    };
                    !server.is_up() && up.iter().any(is_same_server)
                };
                let once = servers.iter().filter(|server| !is_duplicate(server)).cloned().collect();
                Ok((once, deadline.left().unwrap_or(timeout)))
            }
            None => {
                let text =
                    format!("{operation}: Deadline Exceeded after {timeout:?}: {}", self.no_server_reason());
                Err(Error::new(ErrorKind::Timeout, text))
            }
        }
    }

    /// Returns the reason why no server participates, as text.
    pub fn no_server_reason(&self) -> String {
        let states = self.states();
        let reasons: Vec<String> = states
            .iter()
            .filter(|state| !state.reason.is_empty())
            .map(|state| format!("{}: {}", state.address, state.reason))
            .collect();
        match (states.len(), reasons.len()) {
            (0, _) => format!("there is no server for {}: the name has no addresses", self.text),
            (_, 0) => format!("no server of {} has answered yet", self.text),
            _ => format!("none of the servers {} can be reached: {}", self.text, reasons.join("; ")),
        }
    }

    /// Returns the runtime with the tasks that watch the servers.
    pub fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    /// Blocks the calling thread, which must not belong to a runtime, until `future` completes.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(self.runtime.spawn(task));
    }
}

/// A weak reference to a [`Fleet`], for its own tasks, which end when the fleet is dropped.
pub(crate) type WeakFleet = Weak<Fleet>;

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(JoinHandle::abort);
    }
}
