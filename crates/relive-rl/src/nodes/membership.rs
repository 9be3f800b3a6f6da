//! The driver's record of the existing nodes and their worker numbers, as a state machine driven by heartbeats and
//! time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use super::boxes::{FAN_OUT, branch};
use super::heartbeat::NodeHeartbeat;
use super::list::{self, NodeList, Source};
use crate::limits::{MAX_NODE_WORKERS, MAX_NODES, MAX_WORKERS, NODE_GONE, NODE_SILENCE};

/// The holder of the numbers of manually started workers. No node has this id.
const BY_HAND: u64 = 0;

/// How long a node that is gone stays visible.
const SHOWN_GONE: Duration = Duration::from_mins(1);

/// The maximum number of visible nodes that are gone.
const MAX_GONE: usize = 64;

/// All nodes of a run.
#[derive(Debug)]
pub(super) struct Membership {
    /// The numbers available to nodes. Lower numbers belong to workers that the driver starts; a run with
    /// rounds has no more numbers than actors.
    numbers: std::ops::Range<u32>,
    is_fixed: bool,
    /// Until this moment, nodes of a previous driver may still report their numbers, and no new numbers are assigned.
    settles: Instant,
    /// The nodes, in the order of their first heartbeats.
    nodes: Vec<Member>,
    /// The holder of each assigned number.
    holders: BTreeMap<u32, u64>,
}

/// A node, as seen by the driver.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) heartbeat: NodeHeartbeat,
    /// The time of its last heartbeat.
    pub(super) seen: Instant,
    pub(super) state: NodeState,
    /// The number of environment steps of all its workers so far.
    pub(super) env_steps: u64,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeState {
    Up,
    /// The node has sent no heartbeat for a while; it keeps its numbers.
    Silent,
    /// The node has left, or was silent for so long that its numbers are reassigned.
    Gone,
}

impl NodeState {
    pub(super) fn name(self) -> &'static str {
        match self {
            NodeState::Up => "up",
            NodeState::Silent => "silent",
            NodeState::Gone => "gone",
        }
    }
}

/// A change to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Joined(String),
    Silent(String),
    Back(String),
    Left(String),
    /// A node was silent for too long. Contains its name and the numbers that it had.
    Gone(String, Vec<u32>),
}

impl Membership {
    /// Creates an empty membership. A run with rounds has only the numbers below `workers`; the first `started` numbers
    /// are not available to nodes.
    pub(super) fn new((started, workers): (u32, u32), is_fixed: bool, settles: Instant) -> Membership {
        let end = if is_fixed { workers } else { MAX_WORKERS };
        Membership {
            numbers: started.min(end)..end,
            is_fixed,
            settles,
            nodes: Vec::new(),
            holders: BTreeMap::new(),
        }
    }

    /// Records a heartbeat.
    pub(super) fn note(&mut self, heartbeat: NodeHeartbeat, now: Instant) -> Option<Change> {
        let name = heartbeat.name.clone();
        let index = self.nodes.iter().position(|node| node.heartbeat.id == heartbeat.id);
        if heartbeat.leaves {
            let index = index.filter(|at| self.nodes[*at].state != NodeState::Gone)?;
            self.nodes[index].heartbeat = heartbeat;
            self.release(index, now);
            return Some(Change::Left(name));
        }
        let (id, holds) = (heartbeat.id, heartbeat.holds.clone());
        let change = match index {
            // The node is assigned no numbers, and logs this.
            None if self.nodes.len() >= MAX_NODES => return None,
            None => {
                self.nodes.push(Member { heartbeat, seen: now, state: NodeState::Up, env_steps: 0 });
                Some(Change::Joined(name))
            }
            Some(at) => {
                let node = &mut self.nodes[at];
                let before = std::mem::replace(&mut node.state, NodeState::Up);
                (node.heartbeat, node.seen) = (heartbeat, now);
                (before != NodeState::Up).then_some(Change::Back(name))
            }
        };
        if change.is_some() {
            // The node existed before this driver started, or before it was counted as gone.
            for number in holds.into_iter().filter(|number| self.numbers.contains(number)) {
                self.holders.entry(number).or_insert(id);
            }
        }
        change
    }

    /// Updates which nodes are silent or gone, and assigns free numbers to nodes with room.
    pub(super) fn pass(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            let (silence, name) = (now.saturating_duration_since(node.seen), node.heartbeat.name.clone());
            if node.state != NodeState::Gone && silence >= NODE_GONE {
                changes.push(Change::Gone(name, self.release(index, now)));
            } else if node.state == NodeState::Up && silence >= NODE_SILENCE {
                node.state = NodeState::Silent;
                changes.push(Change::Silent(name));
            }
        }
        let forgotten = |node: &Member| {
            node.state == NodeState::Gone && now.saturating_duration_since(node.seen) >= SHOWN_GONE
        };
        self.nodes.retain(|node| !forgotten(node));
        let gone = self.nodes.iter().filter(|node| node.state == NodeState::Gone).count();
        let mut surplus = gone.saturating_sub(MAX_GONE);
        self.nodes.retain(|node| {
            let goes = node.state == NodeState::Gone && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
        self.give(now);
        changes
    }

    /// Removes all of a node's numbers and returns them.
    fn release(&mut self, index: usize, now: Instant) -> Vec<u32> {
        let node = &mut self.nodes[index];
        node.state = NodeState::Gone;
        if node.heartbeat.leaves {
            node.seen = now;
        }
        let id = node.heartbeat.id;
        self.holders.extract_if(.., |_, holder| *holder == id).map(|(number, _)| number).collect()
    }

    fn give(&mut self, now: Instant) {
        let (places, has_settled) = (self.places(), self.has_settled(now));
        // All numbers below this one are assigned.
        let mut next = self.numbers.start;
        for Member { heartbeat: NodeHeartbeat { id, wants, .. }, state, .. } in &self.nodes {
            let wants = usize::try_from((*wants).min(MAX_NODE_WORKERS)).unwrap_or(usize::MAX);
            let held = places.get(id).map_or(&[][..], Vec::as_slice);
            for number in held.iter().skip(wants) {
                self.holders.remove(number);
                next = next.min(*number);
            }
            if *state != NodeState::Up || !has_settled {
                continue;
            }
            let mut missing = wants.saturating_sub(held.len());
            while missing > 0 && next < self.numbers.end {
                if let Entry::Vacant(place) = self.holders.entry(next) {
                    place.insert(*id);
                    missing -= 1;
                }
                next += 1;
            }
        }
    }

    /// Returns whether all numbers that a previous driver assigned are known.
    pub(super) fn has_settled(&self, now: Instant) -> bool {
        now >= self.settles
    }

    /// Records that the worker with the given number exists, or has left. If no node has the number, the worker was
    /// started manually.
    pub(super) fn note_worker(&mut self, number: u32, has_left: bool) {
        if !self.numbers.contains(&number) {
            return;
        }
        let holder = self.holders.get(&number).copied();
        match (holder, has_left) {
            (None, false) => drop(self.holders.insert(number, BY_HAND)),
            (Some(BY_HAND), true) => drop(self.holders.remove(&number)),
            _ => {}
        }
    }

    /// Returns the assigned numbers of all nodes, in order.
    pub(super) fn places(&self) -> BTreeMap<u64, Vec<u32>> {
        let mut places = BTreeMap::<u64, Vec<u32>>::new();
        for (number, holder) in &self.holders {
            places.entry(*holder).or_default().push(*number);
        }
        places
    }

    /// Adds steps of the worker with the given number.
    pub(super) fn note_steps(&mut self, worker: u32, env_steps: u64) {
        let Some(id) = self.holders.get(&worker) else { return };
        if let Some(node) = self.nodes.iter_mut().find(|node| node.heartbeat.id == *id) {
            node.env_steps += env_steps;
        }
    }

    /// Returns all nodes, including those that have been gone for a short time.
    pub(super) fn nodes(&self) -> &[Member] {
        &self.nodes
    }

    /// Returns whether any node is not gone.
    pub(super) fn has_some(&self) -> bool {
        self.nodes.iter().any(|node| node.state != NodeState::Gone)
    }

    /// Returns the list for all nodes. Nodes that pass weights on come first; the other nodes have no children.
    pub(super) fn list(&self) -> NodeList {
        let mut present: Vec<&Member> =
            self.nodes.iter().filter(|node| node.state != NodeState::Gone).collect();
        // Silent nodes are leaves, so no other node waits for them.
        present.sort_by_key(|node| (node.state != NodeState::Up, node.heartbeat.address.is_none()));
        let inner = |at: usize| present.get(at).and_then(|node| node.heartbeat.address.clone());
        let mut places = self.places();
        let entry = |(index, node): (usize, &&Member)| {
            let branch = branch(index);
            let address = branch.parent.and_then(inner);
            let has_box = branch.parent.is_none() || address.is_some();
            let reader = has_box.then(|| branch.slot.to_string());
            let places = places.remove(&node.heartbeat.id).unwrap_or_default();
            list::Assignment { id: node.heartbeat.id, places, source: Source { address, reader } }
        };
        let most = self.is_fixed.then(|| self.numbers.end - self.numbers.start);
        NodeList { most, nodes: present.iter().enumerate().map(entry).collect() }
    }

    /// Returns the boxes on the run's server that have a reader.
    pub(super) fn readers(&self) -> Vec<String> {
        let present = self.nodes.iter().filter(|node| node.state != NodeState::Gone).count();
        (0..present.min(FAN_OUT)).map(|slot| slot.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct MembershipScenario {
        membership: Membership,
        start: Instant,
    }

    impl MembershipScenario {
        fn new(started: u32, workers: u32, is_fixed: bool) -> MembershipScenario {
            let start = Instant::now();
            MembershipScenario { membership: Membership::new((started, workers), is_fixed, start), start }
        }

        fn heartbeat(&mut self, ms: u64, heartbeat: NodeHeartbeat) -> Option<Change> {
            self.membership.note(heartbeat, self.start + Duration::from_millis(ms))
        }

        fn pass(&mut self, ms: u64) -> Vec<Change> {
            self.membership.pass(self.start + Duration::from_millis(ms))
        }

        fn places(&self) -> Vec<Vec<u32>> {
            let places = self.membership.places();
            (1..=3).map(|id| places.get(&id).cloned().unwrap_or_default()).collect()
        }
    }

    fn ms(duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap()
    }

    #[test]
    fn each_worker_number_is_assigned_once_and_late_nodes_get_the_rest() {
        let mut scenario = MembershipScenario::new(1, 2, false);
        assert_eq!(
            scenario.heartbeat(0, NodeHeartbeat::of_test(1, 2)),
            Some(Change::Joined("node-1".to_owned()))
        );
        scenario.heartbeat(0, NodeHeartbeat::of_test(2, 3));
        assert_eq!(scenario.pass(1), []);
        assert_eq!(scenario.places(), [vec![1, 2], vec![3, 4, 5], vec![]]);
        scenario.heartbeat(2, NodeHeartbeat::of_test(3, 1));
        scenario.heartbeat(2, NodeHeartbeat::of_test(1, 1));
        scenario.pass(3);
        assert_eq!(
            scenario.places(),
            [vec![1], vec![3, 4, 5], vec![2]],
            "a node that wants fewer places returns the others"
        );
    }

    #[test]
    fn worker_numbers_of_a_lost_node_are_reassigned() {
        let mut scenario = MembershipScenario::new(0, 4, true);
        scenario.heartbeat(0, NodeHeartbeat::of_test(1, 3));
        scenario.heartbeat(0, NodeHeartbeat::of_test(2, 3));
        scenario.pass(0);
        assert_eq!(
            scenario.places(),
            [vec![0, 1, 2], vec![3], vec![]],
            "a synchronous run has exactly this many places"
        );
        let (silence, gone) = (ms(NODE_SILENCE), ms(NODE_GONE));
        scenario.heartbeat(silence, NodeHeartbeat::of_test(2, 3));
        assert_eq!(scenario.pass(silence), [Change::Silent("node-1".to_owned())]);
        assert_eq!(scenario.places()[0], [0, 1, 2]);
        scenario.heartbeat(gone, NodeHeartbeat::of_test(2, 3));
        assert_eq!(scenario.pass(gone), [Change::Gone("node-1".to_owned(), vec![0, 1, 2])]);
        assert_eq!(scenario.places(), [vec![], vec![0, 1, 3], vec![]]);
        assert_eq!(scenario.pass(gone), [], "it is reported once");
        let back = NodeHeartbeat { holds: vec![0, 1, 2], ..NodeHeartbeat::of_test(1, 3) };
        assert_eq!(scenario.heartbeat(gone + 1, back), Some(Change::Back("node-1".to_owned())));
        scenario.pass(gone + 1);
        assert_eq!(
            scenario.places(),
            [vec![2], vec![0, 1, 3], vec![]],
            "it keeps the places that no other node has"
        );
    }

    #[test]
    fn a_leaving_node_releases_its_worker_numbers_at_once() {
        let mut scenario = MembershipScenario::new(0, 2, true);
        scenario.heartbeat(0, NodeHeartbeat::of_test(1, 2));
        scenario.heartbeat(0, NodeHeartbeat::of_test(2, 2));
        scenario.pass(0);
        let leaves = NodeHeartbeat { leaves: true, ..NodeHeartbeat::of_test(1, 2) };
        assert_eq!(scenario.heartbeat(1, leaves.clone()), Some(Change::Left("node-1".to_owned())));
        assert_eq!(scenario.heartbeat(1, leaves), None);
        scenario.pass(1);
        assert_eq!(scenario.places(), [vec![], vec![0, 1], vec![]]);
        let states: Vec<_> = scenario.membership.nodes().iter().map(|node| node.state.name()).collect();
        assert_eq!(states, ["gone", "up"]);
        scenario.heartbeat(70_000, NodeHeartbeat::of_test(2, 2));
        scenario.pass(70_000);
        assert_eq!(scenario.membership.nodes().len(), 1, "it is not shown forever");
    }

    #[test]
    fn a_new_driver_assigns_nothing_until_current_assignments_are_known() {
        let start = Instant::now();
        let mut scenario =
            MembershipScenario { membership: Membership::new((0, 9), false, start + NODE_GONE), start };
        let gone = ms(NODE_GONE);
        scenario.heartbeat(0, NodeHeartbeat::of_test(1, 2));
        scenario.pass(0);
        assert!(scenario.places()[0].is_empty());
        scenario.heartbeat(10, NodeHeartbeat { holds: vec![0, 1], ..NodeHeartbeat::of_test(2, 2) });
        scenario.heartbeat(gone, NodeHeartbeat::of_test(1, 2));
        scenario.heartbeat(gone, NodeHeartbeat { holds: vec![0, 1], ..NodeHeartbeat::of_test(2, 2) });
        scenario.pass(gone);
        assert_eq!(scenario.places(), [vec![2, 3], vec![0, 1], vec![]]);
    }

    #[test]
    fn numbers_of_manually_started_workers_are_not_reassigned() {
        let mut scenario = MembershipScenario::new(0, 3, true);
        scenario.membership.note_worker(1, false);
        scenario.heartbeat(0, NodeHeartbeat::of_test(1, 3));
        scenario.pass(0);
        assert_eq!(scenario.places()[0], [0, 2]);
        scenario.membership.note_worker(0, true);
        scenario.membership.note_worker(1, true);
        scenario.pass(1);
        assert_eq!(scenario.places()[0], [0, 1, 2]);
    }

    #[test]
    fn steps_are_attributed_to_the_node_of_their_worker() {
        let mut scenario = MembershipScenario::new(0, 4, false);
        scenario.heartbeat(0, NodeHeartbeat::of_test(1, 1));
        scenario.heartbeat(0, NodeHeartbeat::of_test(2, 1));
        scenario.pass(0);
        for (worker, steps) in [(0, 5), (1, 7), (0, 1), (3, 100)] {
            scenario.membership.note_steps(worker, steps);
        }
        let steps: Vec<_> = scenario.membership.nodes().iter().map(|node| node.env_steps).collect();
        assert_eq!(steps, [6, 7]);
    }

    #[test]
    fn weights_are_relayed_by_reachable_live_nodes() {
        let mut scenario = MembershipScenario::new(0, 1, false);
        for id in 1..=4 {
            let mut heartbeat = NodeHeartbeat::of_test(id, 1);
            heartbeat.address = heartbeat.address.filter(|_| id != 1);
            scenario.heartbeat(0, heartbeat);
        }
        let sources = |scenario: &MembershipScenario| {
            let list = scenario.membership.list();
            let mut of: Vec<_> = list.nodes.into_iter().map(|entry| (entry.id, entry.source)).collect();
            of.sort_by_key(|(id, _)| *id);
            of.into_iter()
                .map(|(_, source)| (source.address.unwrap_or_default(), source.reader.unwrap_or_default()))
                .map(|(address, reader)| format!("{address}/{reader}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(sources(&scenario), ["10.0.0.2:7000/1", "/0", "/1", "10.0.0.2:7000/0"]);
        assert_eq!(scenario.membership.readers(), ["0", "1"]);
        let silence = ms(NODE_SILENCE);
        for id in [1, 3, 4] {
            let mut heartbeat = NodeHeartbeat::of_test(id, 1);
            heartbeat.address = heartbeat.address.filter(|_| id != 1);
            scenario.heartbeat(silence, heartbeat);
        }
        scenario.pass(silence);
        assert_eq!(
            sources(&scenario),
            ["10.0.0.3:7000/0", "10.0.0.3:7000/1", "/0", "/1"],
            "node 2 is silent"
        );
    }
}
