//! The driver's side: reads signs, keeps the members, and tells all nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use relive_client::blocking::Client;
use serde_json::{Value, json};

use super::list::NodeList;
use super::membership::{Change, Membership};
use super::sign::NodeSigns;
use crate::limits::NODE_GONE;
use crate::tables::item::GoesOn;
use crate::tables::server;
use crate::watching::log_tables_of;
use crate::{Acted, Result};

/// What workers of higher numbers log is on their own machines alone: nobody reads the logs of more at once.
const MOST_LOGGED: u32 = 1_000;

/// The nodes of a run, as its driver knows them.
#[derive(Default)]
pub(crate) struct Registry {
    /// Workers that the driver starts or that are started by hand, and all actors of the run.
    workers: (u32, u32),
    /// Whether there was a driver before this one, whose nodes have numbers.
    follows: bool,
    is_fixed: AtomicBool,
    known: Mutex<Option<Known>>,
}

/// What it knows once the plan stands.
struct Known {
    members: Membership,
    signs: NodeSigns,
    told: Option<NodeList>,
    /// Workers of the numbers below have tables for what they log.
    logged: u32,
    /// Whether a sign that cannot be read was told of.
    has_complained: bool,
}

impl Registry {
    /// Of a run of so many actors, of whom the first `started` are not for nodes; whether it follows another driver.
    pub(crate) fn new((started, workers): (usize, usize), follows: bool) -> Registry {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Registry { workers: (number(started), number(workers)), follows, ..Registry::default() }
    }

    /// The run goes in rounds, of which each of its actors makes a part.
    pub(crate) fn fix(&self) {
        self.is_fixed.store(true, Ordering::Relaxed);
    }

    /// Reads what has come, sees who is gone, and tells all nodes if something is new to them.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn look(&self, client: &Client, goes_on: GoesOn<'_>) -> Result<()> {
        let (mut place, now) = (self.known.lock(), Instant::now());
        let known = match &mut *place {
            Some(known) => known,
            place => place.insert(self.begin(client, now)?),
        };
        known.read(now)?;
        known.members.pass(now).iter().for_each(tell);
        if !known.members.has_settled(now) {
            return Ok(());
        }
        let list = known.members.list();
        if known.told.as_ref() != Some(&list) {
            known.add_logs(client, &list)?;
            list.put(client, goes_on)?;
            known.told = Some(list);
        }
        Ok(())
    }

    fn begin(&self, client: &Client, now: Instant) -> Result<Known> {
        let settles = if self.follows { now + NODE_GONE } else { now };
        let members = Membership::new(self.workers, self.is_fixed.load(Ordering::Relaxed), settles);
        let signs = NodeSigns::new(client)?;
        Ok(Known { members, signs, told: None, logged: self.workers.1, has_complained: false })
    }

    /// Whether there are nodes that have not left.
    pub(crate) fn has_some(&self) -> bool {
        self.known.lock().as_ref().is_some_and(|known| known.members.has_some())
    }

    /// The boxes of the run's server that nodes read.
    pub(crate) fn readers(&self) -> Vec<String> {
        self.known.lock().as_ref().map_or_else(Vec::new, |known| known.members.readers())
    }

    /// A worker is at work, or has left; those that were started by hand keep their numbers.
    pub(crate) fn note_worker(&self, number: u32, has_left: bool) {
        if let Some(known) = &mut *self.known.lock() {
            known.members.note_worker(number, has_left);
        }
    }

    /// Counts what workers have done.
    pub(crate) fn note_acted(&self, acted: &[Acted]) {
        if let Some(known) = &mut *self.known.lock() {
            acted.iter().for_each(|acted| known.members.note_steps(acted.worker, acted.env_steps));
        }
    }

    /// All nodes, for [`look`](crate::run::look).
    pub(crate) fn shown(&self) -> Value {
        let now = Instant::now();
        let place = self.known.lock();
        let mut places = place.as_ref().map_or_else(BTreeMap::new, |known| known.members.places());
        let nodes = place.iter().flat_map(|known| known.members.nodes());
        let shown = nodes.map(|node| {
            json!({
                "name": node.sign.name,
                "host": node.sign.host,
                "address": node.sign.address,
                "workers": node.sign.workers,
                "places": places.remove(&node.sign.id).unwrap_or_default(),
                "restarts": node.sign.restarts,
                "env_steps": node.env_steps,
                "weights_version": node.sign.version,
                "seen_seconds": now.saturating_duration_since(node.seen).as_secs_f64(),
                "state": node.state.name(),
            })
        });
        Value::Array(shown.collect())
    }
}

impl Known {
    /// Adds tables for what workers log that the run did not begin with.
    fn add_logs(&mut self, client: &Client, list: &NodeList) -> Result<()> {
        let places = list.nodes.iter().flat_map(|node| &node.places);
        let all = places.max().map_or(0, |last| last.saturating_add(1)).min(MOST_LOGGED);
        if all > self.logged {
            let wanted: Vec<_> = log_tables_of(self.logged..all).collect();
            server::add(client, &wanted)?;
            self.logged = all;
        }
        Ok(())
    }

    fn read(&mut self, now: Instant) -> Result<()> {
        while let Some(sign) = self.signs.next()? {
            match sign {
                Ok(sign) => self.members.note(sign, now).iter().for_each(tell),
                Err(error) if !self.has_complained => {
                    self.has_complained = true;
                    tracing::warn!(
                        "a node cannot be understood, and gets no workers: {error}; start it with the Relive of this run"
                    );
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

fn tell(change: &Change) {
    let gone = NODE_GONE.as_secs();
    match change {
        Change::Joined(name) => tracing::info!("{name} has joined the run"),
        Change::Silent(name) => {
            tracing::warn!("{name} gives no sign of life; it is held for gone {gone} s after its last one");
        }
        Change::Back(name) => tracing::info!("{name} gives signs of life again"),
        Change::Left(name) => tracing::info!("{name} has left the run"),
        Change::Gone(name, numbers) => {
            let count = numbers.len();
            tracing::warn!(
                "{name} has given no sign of life for {gone} s: the places of its {count} workers are given to others"
            );
        }
    }
}
