//! One of the servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use relive_table::TableInfo;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::changes::{ServerStanding, ServerState};
use super::health::Health;
use super::mixture::Facts;
use super::owners::ServerNumber;
use crate::client::{Client, StateId};
use crate::{Error, ErrorKind};

/// What a server has said of its tables.
struct Tables {
    /// When it was asked.
    asked: Instant,
    facts: HashMap<String, Facts>,
}

/// A server, and what is known of it.
pub(crate) struct Server {
    pub(super) number: ServerNumber,
    address: String,
    /// A client of this server alone.
    client: Client,
    health: Mutex<Health>,
    /// The same, for those who wait.
    standing: watch::Sender<ServerStanding>,
    tables: Mutex<Tables>,
    /// Who it said that it is.
    identity: Mutex<Option<StateId>>,
    /// Its watcher is to ask now.
    pub(super) poke: Notify,
    /// Its name has it no longer.
    pub(super) retired: AtomicBool,
    /// Streams of writers.
    pub(super) writers: AtomicUsize,
    pub(super) lost_updates: AtomicU64,
}

impl Server {
    pub(super) fn new(number: ServerNumber, address: String, client: Client) -> Server {
        Server {
            number,
            address,
            client,
            health: Mutex::new(Health::new(Instant::now())),
            standing: watch::Sender::new(ServerStanding::Unknown),
            tables: Mutex::new(Tables { asked: Instant::now(), facts: HashMap::new() }),
            identity: Mutex::default(),
            poke: Notify::new(),
            retired: AtomicBool::new(false),
            writers: AtomicUsize::new(0),
            lost_updates: AtomicU64::new(0),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn standing(&self) -> ServerStanding {
        *self.standing.borrow()
    }

    pub(super) fn is_up(&self) -> bool {
        self.standing() == ServerStanding::Up
    }

    pub(super) fn is_away(&self) -> bool {
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
    pub(super) fn facts(&self, table: &str) -> Facts {
        self.tables.lock().facts.get(table).copied().unwrap_or_default()
    }

    /// Whether that is from `moment` or later.
    pub(super) fn is_known_since(&self, moment: Instant) -> bool {
        self.tables.lock().asked >= moment
    }

    /// Takes note of an answer to what was asked at `asked`; whether the server joins.
    pub(super) fn answered(&self, asked: Instant, tables: &[TableInfo]) -> bool {
        let facts = |info: &TableInfo| Facts::new(info.current_size, info.config.sampler);
        let tables = tables.iter().map(|info| (info.config.name.clone(), facts(info))).collect();
        *self.tables.lock() = Tables { asked, facts: tables };
        let mut health = self.health.lock();
        let joins = health.answered(asked, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        joins
    }

    /// Takes note of a failure; whether the server leaves.
    pub(super) fn failed(&self, reason: &str) -> bool {
        let mut health = self.health.lock();
        let leaves = health.failed(reason, Instant::now());
        self.standing
            .send_if_modified(|standing| std::mem::replace(standing, health.standing) != health.standing);
        leaves
    }

    pub(super) fn next_question(&self) -> std::time::Duration {
        self.health.lock().next_question()
    }

    /// Takes note of who it said that it is.
    pub(super) fn identify(&self, identity: StateId) {
        *self.identity.lock() = Some(identity);
    }

    /// Whether this is the same server as `other`, under another address.
    pub(super) fn is_the_same_as(&self, other: &Server) -> bool {
        let (mine, its) = (*self.identity.lock(), *other.identity.lock());
        mine.is_some() && mine == its
    }

    /// The error of a call that this server does not get, or has not answered.
    pub(super) fn away(&self, operation: &str) -> Error {
        let health = self.health.lock();
        let (address, reason, since) = (&self.address, &health.reason, health.since.elapsed());
        let text = format!("{operation}: the server at {address} is away since {since:.1?}: {reason}");
        Error::new(ErrorKind::Unavailable, text)
    }

    pub(super) fn state(&self) -> ServerState {
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
