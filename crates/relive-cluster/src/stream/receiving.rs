//! The receiving end of a stream, as a state machine without sockets, threads or a clock.

use std::collections::VecDeque;

use super::message::{FromShard, Item, ToShard};

/// How far a shard may be ahead of its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The maximum number of items that are produced before they are taken. With 1, the shard begins the next item when
    /// it is requested.
    pub items: u64,
    /// The maximum total size of the items in transit or waiting for the reader. The last item may begin below this
    /// limit and end beyond it.
    pub bytes: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { items: 4096, bytes: 32 << 20 }
    }
}

/// Receives the items of one shard in order, each exactly once, and grants credit up to the window.
#[derive(Debug)]
pub struct Receiving {
    window: Window,
    epoch: u64,
    queue: VecDeque<Item>,
    /// The number and the cost of queued items from a previous epoch, which count toward the current window.
    older: u64,
    older_cost: u64,
    /// In this epoch: the next expected item, with the cost of all items before it; and the number of taken items, with
    /// their cost.
    next: u64,
    next_cost: u64,
    taken: u64,
    taken_cost: u64,
    /// The credit that has been granted, and the credit that has been sent.
    items_granted: u64,
    cost_granted: u64,
    items_announced: u64,
    cost_announced: u64,
    question: u32,
    /// The answer that the shard is waiting for, if any.
    owes: Option<ToShard>,
    is_asked: bool,
    is_discarding: bool,
    has_ended: bool,
}

impl Receiving {
    /// Creates the receiving end before a shard has connected.
    #[must_use]
    pub fn new(window: Window) -> Receiving {
        Receiving {
            window,
            epoch: 0,
            queue: VecDeque::new(),
            older: 0,
            older_cost: 0,
            next: 0,
            next_cost: 0,
            taken: 0,
            taken_cost: 0,
            items_granted: 0,
            cost_granted: 0,
            items_announced: 0,
            cost_announced: 0,
            question: 0,
            owes: None,
            is_asked: false,
            is_discarding: false,
            has_ended: false,
        }
    }

    /// Handles a message from a shard. Returns whether there are new items.
    pub fn receive(&mut self, message: FromShard) -> bool {
        match message {
            FromShard::Hello { epoch, .. } | FromShard::Items { epoch, .. } if epoch < self.epoch => {
                self.owes = Some(ToShard::Replaced { by: self.epoch });
                false
            }
            FromShard::Hello { epoch, question, first, cost } => {
                if epoch > self.epoch {
                    self.begin(epoch, first, cost);
                }
                self.question = question;
                self.owes = Some(self.credit());
                false
            }
            FromShard::Items { epoch, first, items } => {
                // Items of an epoch without a hello, and items after a gap, are ignored: they are sent again after the
                // hello.
                epoch == self.epoch && first <= self.next && self.append(first, items)
            }
        }
    }

    /// Handles a shard that is new or was restarted. Items that it has already produced and that were confirmed are not
    /// sent again.
    fn begin(&mut self, epoch: u64, first: u64, cost: u64) {
        self.epoch = epoch;
        self.older = self.queue.len() as u64;
        self.older_cost = self.queue.iter().map(Item::cost).sum();
        (self.next, self.next_cost, self.taken, self.taken_cost) = (first, cost, first, cost);
        (self.items_granted, self.cost_granted) = (first, cost);
        (self.items_announced, self.cost_announced) = (first, cost);
        if self.is_asked {
            self.grant();
        }
    }

    fn append(&mut self, first: u64, items: Vec<Item>) -> bool {
        if self.is_discarding {
            return false;
        }
        let known = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        let before = self.next;
        for item in items.into_iter().skip(known) {
            // Items beyond the granted credit are ignored.
            if self.next >= self.items_granted || self.next_cost >= self.cost_granted {
                break;
            }
            self.next = self.next.saturating_add(1);
            self.next_cost = self.next_cost.saturating_add(item.cost());
            self.queue.push_back(item);
        }
        self.next > before
    }

    /// Requests items: grants the window after the last taken item.
    pub fn ask(&mut self) {
        self.is_asked = true;
        self.grant();
    }

    fn grant(&mut self) {
        let items = self.window.items.max(1).saturating_sub(self.older);
        let cost = self.window.bytes.max(1).saturating_sub(self.older_cost);
        self.items_granted = self.items_granted.max(self.taken.saturating_add(items));
        self.cost_granted = self.cost_granted.max(self.taken_cost.saturating_add(cost));
    }

    /// Takes the next item, if there is one.
    pub fn take(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        if self.older > 0 {
            self.older -= 1;
            self.older_cost -= item.cost();
        } else {
            self.taken = self.taken.saturating_add(1);
            self.taken_cost = self.taken_cost.saturating_add(item.cost());
            // The end is confirmed immediately, because nothing requests items after it.
            self.has_ended = item == Item::End;
            if self.has_ended {
                self.owes = Some(self.credit());
            }
        }
        // If the shard has been restarted since then, this `End` is not the end.
        if item == Item::End && !self.has_ended { self.take() } else { Some(item) }
    }

    /// Ignores items from now on, and returns the items that have not been taken. There are no calls of
    /// [`take`](Self::take) afterwards.
    pub fn discard(&mut self) -> VecDeque<Item> {
        self.is_discarding = true;
        (self.older, self.older_cost) = (0, 0);
        std::mem::take(&mut self.queue)
    }

    fn credit(&self) -> ToShard {
        ToShard::Credit {
            epoch: self.epoch,
            question: self.question,
            next: self.next,
            taken: self.taken,
            items: self.items_granted,
            cost: self.cost_granted,
        }
    }

    /// Records a connection for an epoch. Its writer may not have received the position of the last taken item.
    pub fn connected(&mut self, epoch: u64) {
        if epoch == self.epoch && epoch > 0 {
            self.owes = Some(self.credit());
        }
    }

    /// Returns whether there is something to send: an answer, or credit of at least half a window.
    #[must_use]
    pub fn has_new_credit(&self) -> bool {
        let items = self.items_granted.saturating_sub(self.items_announced);
        let cost = self.cost_granted.saturating_sub(self.cost_announced);
        let is_due = items.saturating_mul(2) >= self.window.items.max(1)
            || cost.saturating_mul(2) >= self.window.bytes.max(1);
        self.owes.is_some() || (is_due && self.epoch > 0 && !self.has_ended)
    }

    /// Returns the next message to send. Call this repeatedly until it returns `None`.
    pub fn transmit(&mut self) -> Option<ToShard> {
        if !self.has_new_credit() {
            return None;
        }
        if let Some(replaced @ ToShard::Replaced { .. }) = self.owes.take() {
            return Some(replaced);
        }
        (self.items_announced, self.cost_announced) = (self.items_granted, self.cost_granted);
        Some(self.credit())
    }

    /// Returns the number of times that the shard has been started, or 0 before it has connected.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of items that are waiting to be taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether the shard has ended and all its items have been taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    /// Interesting numbers: small numbers, and numbers at which sums overflow.
    fn any_number() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..20, (0_u64..20).prop_map(|less| u64::MAX - less)]
    }

    fn any_message() -> impl Strategy<Value = FromShard> {
        let items =
            prop::collection::vec((0_usize..300).prop_map(|n| Item::Data(Bytes::from(vec![0; n]))), 0..30);
        prop_oneof![
            (any_number(), any::<u32>(), any_number(), any_number())
                .prop_map(|(epoch, question, first, cost)| FromShard::Hello { epoch, question, first, cost }),
            (any_number(), any_number(), items).prop_map(|(epoch, first, items)| FromShard::Items {
                epoch,
                first,
                items
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_shard_cannot_exceed_the_receive_window(
            messages in prop::collection::vec((any_message(), any::<bool>()), 0..40),
        ) {
            let mut receiving = Receiving::new(Window { items: 8, bytes: 1000 });
            for (message, takes) in messages {
                let before = receiving.epoch();
                receiving.receive(message);
                prop_assert!(receiving.epoch() >= before);
                prop_assert!(receiving.waiting() <= 8);
                if takes {
                    receiving.ask();
                    while receiving.take().is_some() {}
                }
                while receiving.transmit().is_some() {}
            }
        }
    }
}
