//! The driver's side: reads heartbeats, keeps the membership, and publishes the list for all nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_client::blocking::Client;
use serde_json::{Value, json};

use super::heartbeat::NodeHeartbeats;
use super::list::{self, NodeList};
use super::membership::{Change, Membership};
use crate::limits::NODE_GONE;
use crate::tables::item::{ShouldContinue, is_loss};
use crate::tables::results::{FromWorker, WorkerEvent};
use crate::tables::server;
use crate::watching::log_tables_of;
use crate::{Acted, Result};

/// Workers with higher numbers log only on their own machines, because a person cannot follow more logs at once.
const MOST_LOGGED: u32 = 1_000;

/// The time between two checks that the table still contains the list. Anyone who has the run's token can write to the
/// table.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The nodes of a run, as seen by the driver.
#[derive(Default)]
pub(crate) struct Registry {
    /// The number of workers that are started by the driver or manually, and the number of all actors.
    workers: (u32, u32),
    /// Whether there was a previous driver, from which nodes may still have numbers.
    follows: bool,
    is_fixed: AtomicBool,
    known: Mutex<Option<RegistryState>>,
}

/// The state once the plan is ready.
struct RegistryState {
    members: Membership,
    heartbeats: NodeHeartbeats,
    published: Option<NodeList>,
    /// When the table was last known to contain the published list.
    checked: Instant,
    /// Workers with numbers below this number have log tables.
    logged: u32,
    /// Whether an unreadable heartbeat has been logged.
    has_logged_error: bool,
}

impl Registry {
    /// Creates the registry of a run with `workers` workers; the first `started` are not available to nodes.
    /// `follows` is true if the run had a driver before.
    pub(crate) fn new(started: usize, workers: usize, follows: bool) -> Registry {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Registry { workers: (number(started), number(workers)), follows, ..Registry::default() }
    }

    /// Fixes the number of workers: in a run with rounds, each actor contributes to every round.
    pub(crate) fn fix(&self) {
        self.is_fixed.store(true, Ordering::Relaxed);
    }

    /// Reads new heartbeats, updates the membership, and publishes the list if it changed.
    ///
    /// # Errors
    /// The server is lost.
    pub(crate) fn update(&self, client: &Client, should_continue: ShouldContinue<'_>) -> Result<()> {
        self.update_at(Instant::now(), client, should_continue)
    }

    fn update_at(&self, now: Instant, client: &Client, should_continue: ShouldContinue<'_>) -> Result<()> {
        let mut place = self.known.lock();
        let known = match &mut *place {
            Some(known) => known,
            place => place.insert(self.begin(client, now)?),
        };
        known.read(now)?;
        known.members.pass(now).iter().for_each(log_change);
        if !known.members.has_settled(now) {
            return Ok(());
        }
        let list = known.members.list();
        if known.published.as_ref() != Some(&list) || !known.is_in_table(client, &list, now)? {
            known.add_logs(client, &list)?;
            list.put(client, should_continue)?;
            (known.published, known.checked) = (Some(list), now);
        }
        Ok(())
    }

    fn begin(&self, client: &Client, now: Instant) -> Result<RegistryState> {
        let settles = if self.follows { now + NODE_GONE } else { now };
        let members = Membership::new(self.workers, self.is_fixed.load(Ordering::Relaxed), settles);
        let heartbeats = NodeHeartbeats::new(client)?;
        Ok(RegistryState {
            members,
            heartbeats,
            published: None,
            checked: now,
            logged: self.workers.1,
            has_logged_error: false,
        })
    }

    /// Returns whether any node is present.
    pub(crate) fn has_some(&self) -> bool {
        self.known.lock().as_ref().is_some_and(|known| known.members.has_some())
    }

    /// Returns the boxes on the run's server that nodes read.
    pub(crate) fn readers(&self) -> Vec<String> {
        self.known.lock().as_ref().map_or_else(Vec::new, |known| known.members.readers())
    }

    /// Records that a worker is active or has left; manually started workers keep their numbers.
    pub(crate) fn note_worker(&self, message: &FromWorker) {
        // A message from a node's worker may arrive after the node has left and its numbers are available again.
        if message.is_on_node {
            return;
        }
        if let Some(known) = &mut *self.known.lock() {
            known.members.note_worker(message.worker, message.event == WorkerEvent::Left);
        }
    }

    /// Adds the steps of workers.
    pub(crate) fn note_acted(&self, acted: &[Acted]) {
        if let Some(known) = &mut *self.known.lock() {
            acted.iter().for_each(|acted| known.members.note_steps(acted.worker, acted.env_steps));
        }
    }

    /// Returns all nodes, for [`look`](crate::run::look).
    pub(crate) fn shown(&self) -> Value {
        let now = Instant::now();
        let place = self.known.lock();
        let mut places = place.as_ref().map_or_else(BTreeMap::new, |known| known.members.places());
        let nodes = place.iter().flat_map(|known| known.members.nodes());
        let shown = nodes.map(|node| {
            json!({
                "name": node.heartbeat.name,
                "host": node.heartbeat.host,
                "address": node.heartbeat.address,
                "workers": node.heartbeat.workers,
                "places": places.remove(&node.heartbeat.id).unwrap_or_default(),
                "restarts": node.heartbeat.restarts,
                "env_steps": node.env_steps,
                "weights_version": node.heartbeat.version,
                "seen_seconds": now.saturating_duration_since(node.seen).as_secs_f64(),
                "state": node.state.name(),
            })
        });
        Value::Array(shown.collect())
    }
}

impl RegistryState {
    /// Returns whether the table contained this list at the last check. If the table contained a foreign item instead,
    /// this is logged.
    fn is_in_table(&mut self, client: &Client, list: &NodeList, now: Instant) -> Result<bool> {
        if now.saturating_duration_since(self.checked) < CHECK_EVERY {
            return Ok(true);
        }
        self.checked = now;
        let why = match NodeList::get(client) {
            Ok(Some(found)) if found == *list => return Ok(true),
            Ok(Some(_)) => "it has a different list".to_owned(),
            Ok(None) => "the table is empty".to_owned(),
            Err(error) if is_loss(&error) => return Err(error),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            "the table `{}` does not have the list that this driver wrote: {why}; writing it again",
            list::TABLE
        );
        Ok(false)
    }

    /// Adds log tables for workers that joined after the start of the run.
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
        while let Some(heartbeat) = self.heartbeats.next()? {
            match heartbeat {
                Ok(heartbeat) => self.members.note(heartbeat, now).iter().for_each(log_change),
                Err(error) if !self.has_logged_error => {
                    self.has_logged_error = true;
                    tracing::warn!(
                        "cannot read the message of a node, which gets no workers: {error}; start it with this run's version of Relive"
                    );
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

fn log_change(change: &Change) {
    let gone = NODE_GONE.as_secs();
    match change {
        Change::Joined(name) => tracing::info!("{name} has joined the run"),
        Change::Silent(name) => {
            tracing::warn!("{name} sends no heartbeats; it counts as gone {gone} s after the last one");
        }
        Change::Back(name) => tracing::info!("{name} sends heartbeats again"),
        Change::Left(name) => tracing::info!("{name} has left the run"),
        Change::Gone(name, numbers) => {
            let count = numbers.len();
            tracing::warn!(
                "{name} has sent no heartbeat for {gone} s: the places of its {count} workers go to other nodes"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::{Engine, EngineBuilder};

    use super::super::heartbeat::NodeHeartbeat;
    use super::*;

    #[test]
    fn a_replaced_node_list_is_written_again() {
        let engine = super::super::tables().fold(Engine::builder(), EngineBuilder::table);
        let client = Client::in_process(engine.build().unwrap()).unwrap();
        let (registry, begun) = (Registry::new(0, 2, false), Instant::now());
        NodeHeartbeat::of_test(7, 2).send(&client).unwrap();
        let look = |after: Duration| registry.update_at(begun + after, &client, &|| true).unwrap();
        while !registry.has_some() {
            look(Duration::ZERO);
        }
        let list = NodeList::get(&client).unwrap().unwrap();
        assert_eq!(list.of(7).unwrap().places, [0, 1]);
        list::put_bytes(&client, b"{}".to_vec(), &|| true).unwrap();
        look(CHECK_EVERY / 2);
        assert!(NodeList::get(&client).is_err(), "the list is not checked every time");
        look(CHECK_EVERY);
        assert_eq!(NodeList::get(&client).unwrap(), Some(list.clone()));
        NodeList::default().put(&client, &|| true).unwrap();
        look(CHECK_EVERY * 2);
        assert_eq!(
            NodeList::get(&client).unwrap(),
            Some(list),
            "a list that is valid but different is also replaced"
        );
    }

    #[test]
    fn late_messages_from_a_lost_node_do_not_occupy_its_worker_numbers() {
        let engine = super::super::tables().fold(Engine::builder(), EngineBuilder::table);
        let client = Client::in_process(engine.build().unwrap()).unwrap();
        let registry = Registry::new(0, 1, false);
        registry.fix();
        let send = |heartbeat: NodeHeartbeat, until: &dyn Fn(&NodeList) -> bool| {
            heartbeat.send(&client).unwrap();
            loop {
                registry.update(&client, &|| true).unwrap();
                match NodeList::get(&client).unwrap() {
                    Some(list) if until(&list) => return,
                    _ => {}
                }
            }
        };
        send(NodeHeartbeat::of_test(7, 1), &|list| list.of(7).is_some_and(|node| node.places == [0]));
        send(NodeHeartbeat { leaves: true, ..NodeHeartbeat::of_test(7, 1) }, &|list| list.of(7).is_none());
        let event = WorkerEvent::Produced { round: 3, items: Vec::new() };
        registry.note_worker(&FromWorker { worker: 0, is_on_node: true, event });
        send(NodeHeartbeat::of_test(8, 1), &|list| list.of(8).is_some());
        assert_eq!(NodeList::get(&client).unwrap().unwrap().of(8).unwrap().places, [0]);
    }
}
