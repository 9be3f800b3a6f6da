//! The sending end of a stream, as a state machine without sockets, threads or a clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::limits::{HEARTBEAT, MAX_ITEMS, MESSAGE_BYTES, RETRY_AFTER};
use super::message::{FromShard, Item, ToShard};

/// Keeps items until the reader has confirmed them, and resends items that may have been lost.
///
/// Times are durations since an arbitrary fixed moment, and never decrease.
#[derive(Debug)]
pub struct Sending {
    epoch: u64,
    /// The unconfirmed items, each with the cost of all items before it.
    unconfirmed: VecDeque<(u64, Item)>,
    /// The number of the first unconfirmed item, and the cost of all items so far.
    first: u64,
    cost: u64,
    /// The next item to send, and the reader's known position.
    next: u64,
    received: u64,
    /// The credit that the reader has granted.
    items_granted: u64,
    cost_granted: u64,
    question: u32,
    /// Whether the last question has been answered.
    is_answered: bool,
    /// The times of the last question, of the last message, and of the last progress of the reader.
    asked: Option<Duration>,
    last_heard: Duration,
    progressed: Duration,
    is_replaced: bool,
    is_closed: bool,
    has_ended: bool,
}

impl Sending {
    /// Creates the sending end of a shard that has been started `epoch` times (1, 2, …). The reader accepts only items
    /// of the newest epoch.
    #[must_use]
    pub fn new(epoch: u64, now: Duration) -> Sending {
        Sending {
            epoch,
            unconfirmed: VecDeque::new(),
            first: 0,
            cost: 0,
            next: 0,
            received: 0,
            items_granted: 0,
            cost_granted: 0,
            question: 0,
            is_answered: false,
            asked: None,
            last_heard: now,
            progressed: now,
            is_replaced: false,
            is_closed: false,
            has_ended: false,
        }
    }

    /// Returns whether the reader has room for another item, which the shard should then produce.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.is_over()
            && !self.has_ended
            && self.pushed() < self.items_granted
            && self.cost < self.cost_granted
    }

    fn is_over(&self) -> bool {
        self.is_replaced || self.is_closed
    }

    /// Returns the number of items so far.
    fn pushed(&self) -> u64 {
        self.first + self.unconfirmed.len() as u64
    }

    /// Accepts an item. Nothing follows [`Item::End`].
    pub fn push(&mut self, item: Item) {
        if self.has_ended {
            return;
        }
        self.has_ended = item == Item::End;
        let before = self.cost;
        self.cost += item.cost();
        self.unconfirmed.push_back((before, item));
    }

    /// Returns whether the reader has taken everything, including the end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.has_ended && self.unconfirmed.is_empty()
    }

    /// Returns the number of confirmed items. The reader has taken them, so a failure of the shard cannot lose them.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.first
    }

    /// Returns whether the shard was restarted elsewhere.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Returns whether the reader accepts no more items.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the time since the last message.
    #[must_use]
    pub fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_heard)
    }

    /// Records a new connection, over which nothing has been received yet. The reader's position is therefore
    /// requested.
    pub fn connected(&mut self, now: Duration) {
        self.last_heard = now;
        self.next_question();
    }

    fn next_question(&mut self) {
        self.question = self.question.wrapping_add(1);
        self.is_answered = false;
        self.asked = None;
    }

    /// Handles a message from the reader.
    pub fn receive(&mut self, now: Duration, message: &ToShard) {
        match *message {
            ToShard::Replaced { by } => self.is_replaced |= by > self.epoch,
            ToShard::Closed => self.is_closed = true,
            ToShard::Credit { epoch, question, next, taken, items, cost } if epoch == self.epoch => {
                self.last_heard = now;
                let is_answer = !self.is_answered && question == self.question;
                self.confirm(taken);
                if next > self.received || is_answer {
                    self.progressed = now;
                }
                if is_answer {
                    // Items beyond the reader's position are sent again. The credit of a restarted reader replaces the
                    // previous credit.
                    self.is_answered = true;
                    self.next = next.clamp(self.first, self.pushed());
                    (self.received, self.items_granted, self.cost_granted) = (next, items, cost);
                } else {
                    self.received = self.received.max(next);
                    self.items_granted = self.items_granted.max(items);
                    self.cost_granted = self.cost_granted.max(cost);
                }
            }
            ToShard::Credit { .. } => {}
        }
    }

    fn confirm(&mut self, taken: u64) {
        while self.first < taken && self.unconfirmed.pop_front().is_some() {
            self.first += 1;
        }
        self.next = self.next.max(self.first);
    }

    /// Returns the next message to send. Call this repeatedly until it returns `None`.
    pub fn transmit(&mut self, now: Duration) -> Option<FromShard> {
        if self.is_over() {
            return None;
        }
        if self.is_answered && self.next > self.received && now.saturating_sub(self.progressed) >= RETRY_AFTER
        {
            self.next_question();
        }
        if self.next_question_at().is_none_or(|at| at <= now) {
            self.asked = Some(now);
            let cost = self.unconfirmed.front().map_or(self.cost, |(before, _)| *before);
            return Some(FromShard::Hello {
                epoch: self.epoch,
                question: self.question,
                first: self.first,
                cost,
            });
        }
        if !self.is_answered {
            return None;
        }
        if self.next == self.received {
            self.progressed = now;
        }
        self.items()
    }

    /// Returns the time of the next question, or `None` if it is due now.
    fn next_question_at(&self) -> Option<Duration> {
        self.asked.map(|asked| asked + if self.is_answered { HEARTBEAT } else { RETRY_AFTER })
    }

    /// Returns the next items, as many as fit into one message.
    fn items(&mut self) -> Option<FromShard> {
        let from = usize::try_from(self.next - self.first).unwrap_or(usize::MAX);
        let (mut items, mut cost) = (Vec::new(), 0);
        for (before, item) in self.unconfirmed.iter().skip(from).take(MAX_ITEMS) {
            let number = self.next + items.len() as u64;
            let is_granted = number < self.items_granted && *before < self.cost_granted;
            if !is_granted || (!items.is_empty() && cost + item.cost() > MESSAGE_BYTES) {
                break;
            }
            cost += item.cost();
            items.push(item.clone());
        }
        if items.is_empty() {
            return None;
        }
        let first = self.next;
        self.next += items.len() as u64;
        Some(FromShard::Items { epoch: self.epoch, first, items })
    }

    /// Returns the latest time for the next call to [`transmit`](Self::transmit).
    #[must_use]
    pub fn wake_at(&self) -> Duration {
        let asks = self.next_question_at().unwrap_or_default();
        let retries = (self.is_answered && self.next > self.received).then(|| self.progressed + RETRY_AFTER);
        retries.map_or(asks, |retries| retries.min(asks))
    }
}
