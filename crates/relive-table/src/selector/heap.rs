//! Picks the item with the lowest or highest priority.

use rand_core::Rng;

use super::error::PriorityError;
use super::{Pick, Rank, Select, SelectorKind, Slot};

/// The number of children per node. With four children, the tree is half as deep as with two, and the children of a
/// node fit into two cache lines.
const ARITY: usize = 4;

const ABSENT: u32 = u32::MAX;

/// The end of the order of priorities at which a heap picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The lowest priority.
    Min,
    /// The highest priority.
    Max,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    priority: f64,
    /// The time at which the slot was inserted or last updated, as a count of this heap's changes.
    tick: u64,
    slot: Slot,
}

/// Picks the slot with the lowest or highest priority, with probability 1. Among equal priorities, it picks the slot
/// that was inserted or updated longest ago.
///
/// This is an indexed heap: every change takes at most log4(len) steps. It needs 28 bytes per slot.
#[derive(Clone, Debug)]
pub struct Heap {
    direction: Direction,
    nodes: Vec<Node>,
    places: Vec<u32>,
    next_tick: u64,
}

/// Heaps order by priority, so they accept every priority except NaN.
pub(super) fn rank_of(kind: SelectorKind, priority: f64) -> Result<Rank, PriorityError> {
    if priority.is_nan() { Err(PriorityError::Nan { selector: kind }) } else { Ok(Rank(priority)) }
}

impl Heap {
    /// Creates an empty heap.
    pub fn new(direction: Direction) -> Self {
        Self { direction, nodes: Vec::new(), places: Vec::new(), next_tick: 0 }
    }

    fn place(&self, slot: Slot) -> Option<usize> {
        self.places.get(slot as usize).filter(|&&place| place != ABSENT).map(|&place| place as usize)
    }

    fn new_node(&mut self, slot: Slot, rank: Rank) -> Node {
        let tick = self.next_tick;
        self.next_tick += 1;
        Node { priority: rank.0, tick, slot }
    }

    fn comes_before(&self, a: &Node, b: &Node) -> bool {
        if a.priority == b.priority {
            return a.tick < b.tick;
        }
        match self.direction {
            Direction::Min => a.priority < b.priority,
            Direction::Max => a.priority > b.priority,
        }
    }

    fn put(&mut self, place: usize, node: Node) {
        self.places[node.slot as usize] = u32::try_from(place).expect("there are fewer than 2^32 slots");
        self.nodes[place] = node;
    }

    /// Moves `node` from the hole at `place` to its proper position.
    fn settle(&mut self, place: usize, node: Node) {
        let place = self.sift_up(place, &node);
        let place = self.sift_down(place, &node);
        self.put(place, node);
    }

    /// Moves parents down into the hole until `node` fits into it.
    fn sift_up(&mut self, mut hole: usize, node: &Node) -> usize {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if !self.comes_before(node, &self.nodes[parent]) {
                break;
            }
            self.put(hole, self.nodes[parent]);
            hole = parent;
        }
        hole
    }

    /// Moves the children that come first up into the hole until `node` fits into it.
    fn sift_down(&mut self, mut hole: usize, node: &Node) -> usize {
        while let Some(child) = self.first_child(hole) {
            if !self.comes_before(&self.nodes[child], node) {
                break;
            }
            self.put(hole, self.nodes[child]);
            hole = child;
        }
        hole
    }

    /// Returns the child of `place` that comes first in the order.
    fn first_child(&self, place: usize) -> Option<usize> {
        let start = place * ARITY + 1;
        let end = (start + ARITY).min(self.nodes.len());
        (start..end).reduce(|a, b| if self.comes_before(&self.nodes[b], &self.nodes[a]) { b } else { a })
    }
}

impl Select for Heap {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn admit(&self, _replaced: Option<Slot>, priority: f64) -> Result<Rank, PriorityError> {
        let kind = match self.direction {
            Direction::Min => SelectorKind::MinHeap,
            Direction::Max => SelectorKind::MaxHeap,
        };
        rank_of(kind, priority)
    }

    fn insert(&mut self, slot: Slot, rank: Rank) -> bool {
        if slot == Slot::MAX || self.place(slot).is_some() {
            return false;
        }
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, ABSENT);
        }
        let node = self.new_node(slot, rank);
        self.nodes.push(node);
        self.settle(self.nodes.len() - 1, node);
        true
    }

    fn update(&mut self, slot: Slot, rank: Rank) -> bool {
        let Some(place) = self.place(slot) else { return false };
        let node = self.new_node(slot, rank);
        self.settle(place, node);
        true
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let Some(hole) = self.place(slot) else { return false };
        self.places[slot as usize] = ABSENT;
        let last = self.nodes.pop().expect("a place exists, so the heap is not empty");
        if last.slot != slot {
            self.settle(hole, last);
        }
        true
    }

    fn pick<R: Rng + ?Sized>(&mut self, _rng: &mut R) -> Option<Pick> {
        self.nodes.first().map(|node| Pick { slot: node.slot, probability: 1.0 })
    }
}
