//! Merges several flows.

use std::sync::Arc;
use std::task::Poll;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::checkpoint::Checkpoint;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::{Flow, Result};

/// The maximum number of consecutive items of a flow with weight [`Weight::All`], so that other flows get their turns.
const MAX_IN_A_ROW: u32 = 100;

/// The order in which the items of several flows are merged.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// One item from each flow in turn, waiting for each item, so that the order is deterministic.
    RoundRobin,
    /// One item from each flow in turn, skipping flows without an item.
    Ready,
    /// As many items from each flow in turn as its weight specifies, waiting for each item. Fractional weights use
    /// random numbers, which depend on the seed.
    Weighted {
        /// One weight per flow.
        weights: Vec<Weight>,
        /// The seed of the random numbers.
        seed: u64,
    },
}

/// The number of items that a flow yields per turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// A fixed number, waiting for each item. 2.25 means three items in a quarter of the turns, and two otherwise.
    Times(f64),
    /// All available items, up to a hundred, without waiting.
    All,
    /// All available items, up to this number, without waiting.
    UpTo(u32),
}

impl Order {
    /// Returns a weighted order. The seed matters only for fractional weights.
    #[must_use]
    pub fn weighted(weights: impl IntoIterator<Item = Weight>) -> Self {
        Self::Weighted { weights: weights.into_iter().collect(), seed: 0 }
    }

    /// Returns the reason why the given number of flows cannot be merged in this order, or `None` if it can.
    fn fault(&self, flows: usize) -> Option<String> {
        if flows == 0 {
            return Some("a union needs at least one flow".to_owned());
        }
        let Self::Weighted { weights, .. } = self else { return None };
        if weights.len() != flows {
            return Some(format!("got {} weights for {flows} flows; give one for each", weights.len()));
        }
        if weights.iter().all(|weight| *weight == Weight::All) {
            return Some(
                "all weights are `All`, so the union would never wait for an item; give one of the flows a number"
                    .to_owned(),
            );
        }
        let wrong = weights.iter().find_map(|weight| match weight {
            Weight::Times(times) if !times.is_finite() || *times <= 0.0 => Some(*times),
            Weight::UpTo(0) => Some(0.0),
            Weight::Times(_) | Weight::All | Weight::UpTo(_) => None,
        });
        wrong.map(|times| format!("a weight must be a number above 0, got {times}"))
    }
}

struct Union<T> {
    children: Vec<Child<T>>,
    order: Order,
    seed: u64,
    /// The number of random numbers drawn so far.
    drawn: u64,
    /// The flow that has the turn.
    at: usize,
    /// The number of items that this flow may still yield, or `None` if its turn has not started.
    left: Option<RemainingTurn>,
    /// Whether some flows have not been pulled yet.
    is_first_round: bool,
}

struct Child<T> {
    pull: Box<dyn Pull<T>>,
    weight: Option<Weight>,
    /// The flow's index among the merged flows.
    place: usize,
}

/// The remaining items of a turn.
#[derive(Clone, Copy)]
struct RemainingTurn {
    items: u32,
    waits: bool,
}

impl<T> Union<T> {
    fn begin_turn(&mut self) -> RemainingTurn {
        let weight = self.children.get(self.at).and_then(|child| child.weight);
        match (weight, &self.order) {
            (Some(Weight::All), _) => RemainingTurn { items: MAX_IN_A_ROW, waits: false },
            (Some(Weight::UpTo(items)), _) => RemainingTurn { items, waits: false },
            (Some(Weight::Times(times)), _) => {
                let more = times.fract() > 0.0 && self.draw(times.fract());
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the number is positive, and the cast saturates"
                )]
                let items = (times as u32).saturating_add(u32::from(more));
                RemainingTurn { items, waits: true }
            }
            (None, order) => RemainingTurn { items: 1, waits: *order == Order::RoundRobin },
        }
    }

    /// Returns true with this probability. A random number depends only on how many were drawn before it, so a
    /// checkpoint needs only the count.
    fn draw(&mut self, chance: f64) -> bool {
        self.drawn = self.drawn.wrapping_add(1);
        let seed = self.seed ^ self.drawn.wrapping_mul(0xd134_2543_de82_ef95);
        Xoshiro256PlusPlus::seed_from_u64(seed).random_bool(chance.clamp(0.0, 1.0))
    }

    fn end_turn(&mut self) {
        self.left = None;
        self.at = (self.at + 1) % self.children.len().max(1);
        self.is_first_round &= self.at > 0;
    }

    fn remove(&mut self) {
        self.children.remove(self.at);
        self.left = None;
        if self.at >= self.children.len() {
            self.at = 0;
        }
    }
}

impl<T> Pull<T> for Union<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        // The number of consecutive flows without an item.
        let mut idle = 0;
        loop {
            let left = match self.left {
                Some(left) => left,
                None => self.begin_turn(),
            };
            let Some(child) = self.children.get_mut(self.at) else { return Poll::Ready(None) };
            if left.items == 0 {
                self.end_turn();
                continue;
            }
            let earlier = turn.take_pending();
            let polled = child.pull.poll_next(turn);
            let keeps_turn = left.waits && !turn.waits_for_own_parts(self.is_first_round);
            let later = turn.take_pending();
            turn.add_pending(earlier.and(later));
            match polled {
                Poll::Ready(Some(item)) => {
                    self.left = Some(RemainingTurn { items: left.items - 1, ..left });
                    if left.items == 1 {
                        self.end_turn();
                    }
                    return Poll::Ready(Some(item));
                }
                Poll::Ready(None) => self.remove(),
                Poll::Pending if turn.is_stopped() || keeps_turn => {
                    self.left = Some(left);
                    return Poll::Pending;
                }
                Poll::Pending => {
                    idle += 1;
                    self.end_turn();
                    if idle >= self.children.len() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let mut live = self.children.iter().map(|child| child.place).collect();
        checkpoint.places(&mut live);
        self.children.retain(|child| live.contains(&child.place));
        checkpoint.count(&mut self.at);
        if self.children.len() != live.len() || self.at >= self.children.len().max(1) {
            return Err(checkpoint.refusal("it was saved with different flows"));
        }
        checkpoint.number(&mut self.drawn);
        let RemainingTurn { items, waits } = self.left.unwrap_or(RemainingTurn { items: 0, waits: false });
        let (mut is_begun, mut items, mut waits) = (self.left.is_some(), u64::from(items), waits);
        checkpoint.flag(&mut is_begun);
        checkpoint.number(&mut items);
        checkpoint.flag(&mut waits);
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        self.left = is_begun.then_some(RemainingTurn { items, waits });
        self.children.iter_mut().try_for_each(|child| child.pull.checkpoint(checkpoint))
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Merges all flows in this order. The result ends when all flows have ended. From now on, the flows share their
    /// [`Metrics`](crate::Metrics), and the sources of each flow are numbered after those of the flows before it.
    ///
    /// The turn of a flow also ends if a source [reports](crate::Turn::not_ready_until) that it has no item, or if the flow
    /// waits only for parts of the graph that the same thread pulls, like a [copy](Self::duplicate) that is ahead of
    /// another copy in this union. In the first round, parts that nothing has pulled so far also count.
    ///
    /// An empty list and invalid weights are an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) error at
    /// the first pull.
    ///
    /// ```
    /// use relive_flow::{Flow, Order, Weight};
    ///
    /// let numbers = |name, number| Flow::from_iter(name, [number; 3]);
    /// let order = Order::weighted([Weight::Times(2.0), Weight::Times(1.0)]);
    /// let joined = Flow::union([numbers("ones", 1), numbers("twos", 2)], order);
    /// assert_eq!(joined.into_iter().collect::<Result<Vec<_>, _>>()?, [1, 1, 2, 1, 2, 2]);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn union(flows: impl IntoIterator<Item = Flow<T>>, order: Order) -> Flow<T> {
        let mut sources = 0;
        let flows: Vec<Flow<T>> = flows.into_iter().map(|flow| flow.number_sources(&mut sources)).collect();
        let metrics = flows.first().map(|flow| flow.metrics.clone()).unwrap_or_default();
        flows.iter().for_each(|flow| flow.metrics.join(&metrics));
        let node = Node::new("union", flows.iter().map(|flow| Arc::clone(&flow.node)).collect());
        if let Some(fault) = order.fault(flows.len()) {
            return Flow::refused(node, metrics, &fault);
        }
        let weights = |number: usize| match &order {
            Order::Weighted { weights, .. } => weights.get(number).copied(),
            Order::RoundRobin | Order::Ready => None,
        };
        let children = flows.into_iter().enumerate().map(|(place, flow)| Child {
            pull: flow.pull,
            weight: weights(place),
            place,
        });
        let children = children.collect();
        let seed = if let Order::Weighted { seed, .. } = order { seed } else { 0 };
        let union = Union { children, order, seed, drawn: 0, at: 0, left: None, is_first_round: true };
        Flow::new(union, node, metrics).with_sources(sources)
    }
}
