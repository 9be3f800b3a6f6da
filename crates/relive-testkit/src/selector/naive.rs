//! Selectors that are optimized for readability: a list with linear search.

use relive_table::SelectorKind;
use relive_table::selector::MAX_TOTAL_WEIGHT;

/// A selector over values with an identity.
#[derive(Clone, Debug)]
pub struct NaiveSelector {
    kind: SelectorKind,
    /// The members, in insertion order.
    members: Vec<Member>,
    changes: u64,
    /// Members that have been picked in this epoch, for selectors that pick each member once per epoch.
    picked: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Member {
    id: u64,
    priority: f64,
    /// The number of changes before the member was inserted or last updated.
    changed: u64,
}

impl NaiveSelector {
    /// An empty selector.
    pub fn new(kind: SelectorKind) -> Self {
        Self { kind, members: Vec::new(), changes: 0, picked: Vec::new() }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns whether a member may have the given priority, in place of `replaced` if it is already present.
    pub fn accepts(&self, replaced: Option<u64>, priority: f64) -> bool {
        match self.kind {
            SelectorKind::Fifo
            | SelectorKind::Lifo
            | SelectorKind::Uniform
            | SelectorKind::WithoutReplacement => true,
            SelectorKind::MinHeap | SelectorKind::MaxHeap => !priority.is_nan(),
            SelectorKind::Prioritized { exponent } => {
                let others = self.members.iter().filter(|member| Some(member.id) != replaced);
                let others: f64 = others.map(|member| weight(exponent, member.priority)).sum();
                let own = weight(exponent, priority);
                priority >= 0.0 && priority.is_finite() && others + own <= MAX_TOTAL_WEIGHT
            }
        }
    }

    /// Adds a member.
    pub fn insert(&mut self, id: u64, priority: f64) {
        self.members.push(Member { id, priority, changed: self.changes });
        self.changes += 1;
    }

    /// Changes a member's priority.
    pub fn update(&mut self, id: u64, priority: f64) {
        for member in self.members.iter_mut().filter(|member| member.id == id) {
            *member = Member { id, priority, changed: self.changes };
        }
        self.changes += 1;
    }

    /// Removes a member.
    pub fn remove(&mut self, id: u64) {
        self.members.retain(|member| member.id != id);
        self.picked.retain(|picked| *picked != id);
    }

    /// Returns the probability that each member is picked next, in insertion order.
    pub fn probabilities(&self) -> Vec<(u64, f64)> {
        let only = |best: Option<&Member>| best.map(|member| (member.id, 1.0)).into_iter().collect();
        match self.kind {
            SelectorKind::Fifo => only(self.members.first()),
            SelectorKind::Lifo => only(self.members.last()),
            SelectorKind::MinHeap => only(self.extreme(1.0)),
            SelectorKind::MaxHeap => only(self.extreme(-1.0)),
            SelectorKind::Uniform => self.in_proportion(|_| 1.0),
            SelectorKind::WithoutReplacement => {
                self.in_proportion(|member| if self.picked.contains(&member.id) { 0.0 } else { 1.0 })
            }
            SelectorKind::Prioritized { exponent } => {
                self.in_proportion(|member| weight(exponent, member.priority))
            }
        }
    }

    fn extreme(&self, sign: f64) -> Option<&Member> {
        self.members.iter().min_by(|a, b| {
            let by_priority = (sign * a.priority).partial_cmp(&(sign * b.priority));
            by_priority.expect("no NaN is in a heap").then(a.changed.cmp(&b.changed))
        })
    }

    fn in_proportion(&self, weight: impl Fn(&Member) -> f64) -> Vec<(u64, f64)> {
        let total: f64 = self.members.iter().map(&weight).sum();
        if total == 0.0 {
            let alike = 1.0 / f64::from(u32::try_from(self.len()).expect("models are small"));
            return self.members.iter().map(|member| (member.id, alike)).collect();
        }
        let positive = self.members.iter().filter(|member| weight(member) > 0.0);
        positive.map(|member| (member.id, weight(member) / total)).collect()
    }

    /// Checks that a pick was possible and its probability correct, and records it.
    ///
    /// # Panics
    /// If the pick was impossible or its probability wrong.
    pub fn check_pick(&mut self, id: u64, probability: f64) {
        let expected = self.probabilities();
        let found = expected.iter().find(|(candidate, _)| *candidate == id);
        let (_, right) = found.unwrap_or_else(|| {
            panic!("{} picked {id}, but only these are possible: {expected:?}", self.kind)
        });
        let close = (probability - right).abs() <= 1e-9 * right;
        assert!(close, "{} reported probability {probability} for {id}, but it is {right}", self.kind);
        self.remember_pick(id);
    }
}

impl NaiveSelector {
    fn remember_pick(&mut self, id: u64) {
        if self.picked.len() == self.members.len() {
            self.picked.clear();
        }
        self.picked.push(id);
        if self.kind != SelectorKind::WithoutReplacement {
            self.picked.clear();
        }
    }
}

fn weight(exponent: f64, priority: f64) -> f64 {
    if priority == 0.0 { 0.0 } else { priority.powf(exponent) }
}
