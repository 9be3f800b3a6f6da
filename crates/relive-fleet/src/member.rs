//! One of the servers of a fleet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use relive_connection::{Connection, Error, ErrorKind, StateId};
use relive_table::{SelectorKind, TableInfo};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::changes::{ServerStanding, ServerState};
use crate::health::Health;
use crate::owners::MemberNumber;

/// Properties of a table on one server, for drawing samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TableFacts {
    /// The number of items.
    pub size: u64,
    /// The exponent of priorities, if the sampler is prioritized.
    pub exponent: Option<f64>,
}

/// The tables that a server reported.
struct Tables {
    /// The time at which the tables were requested.
    requested_at: Instant,
    facts: HashMap<String, TableFacts>,
}

/// A server and its state.
pub struct Member {
    number: MemberNumber,
    address: String,
    connection: Connection,
    health: Mutex<Health>,
    /// The standing, for waiters.
    standing: watch::Sender<ServerStanding>,
    tables: Mutex<Tables>,
    /// Its reported identity.
    identity: Mutex<Option<StateId>>,
    /// Makes the server's watcher send a request now.
    refresh_now: Notify,
    /// Whether the server is no longer among the addresses of its name.
    pub(crate) retired: AtomicBool,
    /// The number of writers' streams.
    pub(crate) writers: AtomicUsize,
    pub(crate) lost_updates: AtomicU64,
}

impl TableFacts {
    /// Creates the properties of a table with `size` items and the given sampler.
    pub fn new(size: u64, sampler: SelectorKind) -> TableFacts {
        let exponent = match sampler {
            SelectorKind::Prioritized { exponent } => Some(exponent),
            _ => None,
        };
        TableFacts { size, exponent }
    }
}

impl Member {
    pub(crate) fn new(number: MemberNumber, address: String, connection: Connection) -> Member {
        Member {
            number,
            address,
            connection,
            health: Mutex::new(Health::new(Instant::now())),
            standing: watch::Sender::new(ServerStanding::Unknown),
            tables: Mutex::new(Tables { requested_at: Instant::now(), facts: HashMap::new() }),
            identity: Mutex::default(),
            refresh_now: Notify::new(),
            retired: AtomicBool::new(false),
            writers: AtomicUsize::new(0),
            lost_updates: AtomicU64::new(0),
        }
    }

    /// Returns the address as given, or as resolved from its name.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the connection to the server.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the number that identifies the server. Numbers are never reused.
    pub fn number(&self) -> MemberNumber {
        self.number
    }

    pub(crate) fn standing(&self) -> ServerStanding {
        *self.standing.borrow()
    }

    /// Returns whether the server participates.
    pub fn is_up(&self) -> bool {
        self.standing() == ServerStanding::Up
    }

    pub(crate) fn is_away(&self) -> bool {
        self.standing() == ServerStanding::Away
    }

    /// Completes when the server is left out.
    pub(crate) async fn until_away(&self) {
        let mut standing = self.standing.subscribe();
        if standing.wait_for(|standing| *standing == ServerStanding::Away).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the properties of the table with the given name, or default properties if the server did not report the
    /// table.
    pub fn facts(&self, table: &str) -> TableFacts {
        self.tables.lock().facts.get(table).copied().unwrap_or_default()
    }

    /// Requests the server's tables now.
    pub fn refresh_now(&self) {
        self.refresh_now.notify_one();
    }

    /// Completes when the server's tables should be requested.
    pub(crate) async fn refresh_requested(&self) {
        self.refresh_now.notified().await;
    }

    /// Returns whether the server has answered a request for its tables that was made at `moment` or later.
    pub fn is_known_since(&self, moment: Instant) -> bool {
        self.tables.lock().requested_at >= moment
    }

    /// Records a response to a request made at `requested_at`. Returns whether the server joins; a retired server does
    /// not.
    pub(crate) fn answered(&self, requested_at: Instant, tables: &[TableInfo]) -> bool {
        let facts = |info: &TableInfo| TableFacts::new(info.current_size, info.config.sampler);
        let tables = tables.iter().map(|info| (info.config.name.clone(), facts(info))).collect();
        *self.tables.lock() = Tables { requested_at, facts: tables };
        let mut health = self.health.lock();
        if self.retired.load(Ordering::Relaxed) {
            return false;
        }
        let joins = health.answered(requested_at, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        joins
    }

    /// Records a failure. Returns whether the server leaves.
    pub(crate) fn failed(&self, reason: &str) -> bool {
        let mut health = self.health.lock();
        let leaves = health.failed(reason, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        leaves
    }

    pub(crate) fn next_refresh(&self) -> std::time::Duration {
        self.health.lock().next_refresh()
    }

    /// Records its identity.
    pub(crate) fn identify(&self, identity: StateId) {
        *self.identity.lock() = Some(identity);
    }

    /// Returns whether this server and `other` are the same server under different addresses.
    pub(crate) fn is_the_same_as(&self, other: &Member) -> bool {
        let (mine, its) = (*self.identity.lock(), *other.identity.lock());
        mine.is_some() && mine == its
    }

    /// Returns the error for a call that this server did not receive or did not answer.
    pub(crate) fn away_error(&self, operation: &str) -> Error {
        let health = self.health.lock();
        let (address, reason, since) = (&self.address, &health.reason, health.since.elapsed());
        let text = format!("{operation}: the server at {address} has been away for {since:.1?}: {reason}");
        Error::new(ErrorKind::Unavailable, text)
    }

    pub(crate) fn state(&self) -> ServerState {
        let health = self.health.lock();
        ServerState {
            address: self.address.clone(),
            standing: health.standing,
            since: health.since.elapsed(),
            reason: health.reason.clone(),
            writers: self.writers.load(Ordering::Relaxed),
            times_left: health.times_left,
            lost_updates: self.lost_updates.load(Ordering::Relaxed),
        }
    }
}
