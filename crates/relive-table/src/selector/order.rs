//! Slots in insertion order: a doubly linked list without pointers.

use super::Slot;

const END: Slot = Slot::MAX;
const ABSENT: Slot = Slot::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: Slot,
    newer: Slot,
}

/// The list used by [`Fifo`](super::Fifo) and [`Lifo`](super::Lifo). It needs 8 bytes per slot; every change takes
/// constant time.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    links: Vec<Link>,
    oldest: Slot,
    newest: Slot,
    len: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { links: Vec::new(), oldest: END, newest: END, len: 0 }
    }
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn oldest(&self) -> Option<Slot> {
        (self.oldest != END).then_some(self.oldest)
    }

    /// Iterates over the slots from the oldest to the newest.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Slot> {
        let next = |&slot: &Slot| Some(self.links.get(slot as usize)?.newer).filter(|&newer| newer != END);
        core::iter::successors(self.oldest(), next)
    }

    pub(crate) fn newest(&self) -> Option<Slot> {
        (self.newest != END).then_some(self.newest)
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.older != ABSENT)
    }

    pub(crate) fn push_newest(&mut self, slot: Slot) -> bool {
        if slot >= ABSENT || self.contains(slot) {
            return false;
        }
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link { older: ABSENT, newer: ABSENT });
        }
        self.links[slot as usize] = Link { older: self.newest, newer: END };
        match self.links.get_mut(self.newest as usize) {
            Some(previous) => previous.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.len += 1;
        true
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let removed = self.links[slot as usize];
        self.links[slot as usize] = Link { older: ABSENT, newer: ABSENT };
        match self.links.get_mut(removed.older as usize) {
            Some(older) => older.newer = removed.newer,
            None => self.oldest = removed.newer,
        }
        match self.links.get_mut(removed.newer as usize) {
            Some(newer) => newer.older = removed.older,
            None => self.newest = removed.older,
        }
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order(order: &Order) -> Vec<Slot> {
        order.oldest_first().collect()
    }

    #[test]
    fn removal_at_either_end_and_inside_keeps_the_order() {
        let mut order = Order::default();
        for slot in [4, 0, 2, 3, 1] {
            assert!(order.push_newest(slot));
        }
        assert!(!order.push_newest(2), "a slot is in the list once");
        assert!(order.remove(2) && order.remove(4) && order.remove(1));
        assert!(!order.remove(2), "a slot leaves once");
        assert_eq!(in_order(&order), [0, 3]);
        assert!(order.push_newest(4));
        assert_eq!((in_order(&order), order.newest()), (vec![0, 3, 4], Some(4)));
    }

    #[test]
    fn slots_at_the_end_of_the_range_are_refused() {
        let mut order = Order::default();
        assert!(!order.push_newest(END) && !order.push_newest(ABSENT));
        assert_eq!(order.len(), 0);
    }
}
