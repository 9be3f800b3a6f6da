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

/// What is known of a table at one server, for drawing samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TableFacts {
    /// Items.
    pub size: u64,
    /// The power of priorities, if they are what items are chosen by.
    pub exponent: Option<f64>,
}

/// What a server has said of its tables.
struct Tables {
    /// When it was asked.
    asked: Instant,
    facts: HashMap<String, TableFacts>,
}

/// A server, and what is known of it.
pub struct Member {
    number: MemberNumber,
    address: String,
    connection: Connection,
    health: Mutex<Health>,
    /// The same, for those who wait.
    standing: watch::Sender<ServerStanding>,
    tables: Mutex<Tables>,
    /// Who it said that it is.
    identity: Mutex<Option<StateId>>,
    /// Its watcher is to ask now.
    ask_now: Notify,
    /// Its name has it no longer.
    pub(crate) retired: AtomicBool,
    /// Streams of writers.
    pub(crate) writers: AtomicUsize,
    pub(crate) lost_updates: AtomicU64,
}

impl TableFacts {
    /// The facts of a table with `size` items, and this sampler.
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
            tables: Mutex::new(Tables { asked: Instant::now(), facts: HashMap::new() }),
            identity: Mutex::default(),
            ask_now: Notify::new(),
            retired: AtomicBool::new(false),
            writers: AtomicUsize::new(0),
            lost_updates: AtomicU64::new(0),
        }
    }

    /// The address as it was given, or as its name resolves.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The connection to it.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Tells servers apart; numbers are never used twice.
    pub fn number(&self) -> MemberNumber {
        self.number
    }

    pub(crate) fn standing(&self) -> ServerStanding {
        *self.standing.borrow()
    }

    /// Whether it takes part.
    pub fn is_up(&self) -> bool {
        self.standing() == ServerStanding::Up
    }

    pub(crate) fn is_away(&self) -> bool {
        self.standing() == ServerStanding::Away
    }

    /// Ready once the server is left out.
    pub(crate) async fn left_out(&self) {
        let mut standing = self.standing.subscribe();
        if standing.wait_for(|standing| *standing == ServerStanding::Away).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// What the table of that name is like here; nothing is known of one that was not there when the server was asked.
    pub fn facts(&self, table: &str) -> TableFacts {
        self.tables.lock().facts.get(table).copied().unwrap_or_default()
    }

    /// Has its tables asked for now.
    pub fn ask_now(&self) {
        self.ask_now.notify_one();
    }

    /// Ready when somebody wants its tables asked for.
    pub(crate) async fn is_to_be_asked(&self) {
        self.ask_now.notified().await;
    }

    /// Whether that is from `moment` or later.
    pub fn is_known_since(&self, moment: Instant) -> bool {
        self.tables.lock().asked >= moment
    }

    /// Takes note of an answer to what was asked at `asked`; whether the server joins.
    pub(crate) fn answered(&self, asked: Instant, tables: &[TableInfo]) -> bool {
        let facts = |info: &TableInfo| TableFacts::new(info.current_size, info.config.sampler);
        let tables = tables.iter().map(|info| (info.config.name.clone(), facts(info))).collect();
        *self.tables.lock() = Tables { asked, facts: tables };
        let mut health = self.health.lock();
        let joins = health.answered(asked, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        joins
    }

    /// Takes note of a failure; whether the server leaves.
    pub(crate) fn failed(&self, reason: &str) -> bool {
        let mut health = self.health.lock();
        let leaves = health.failed(reason, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        leaves
    }

    pub(crate) fn next_question(&self) -> std::time::Duration {
        self.health.lock().next_question()
    }

    /// Takes note of who it said that it is.
    pub(crate) fn identify(&self, identity: StateId) {
        *self.identity.lock() = Some(identity);
    }

    /// Whether this is the same server as `other`, under another address.
    pub(crate) fn is_the_same_as(&self, other: &Member) -> bool {
        let (mine, its) = (*self.identity.lock(), *other.identity.lock());
        mine.is_some() && mine == its
    }

    /// The error of a call that this server does not get, or has not answered.
    pub(crate) fn away(&self, operation: &str) -> Error {
        let health = self.health.lock();
        let (address, reason, since) = (&self.address, &health.reason, health.since.elapsed());
        let text = format!("{operation}: the server at {address} is away since {since:.1?}: {reason}");
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
