//! Several copies of one flow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::checkpoint::Checkpoint;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, Tagged, Turn};
use crate::sync::Mutex;
use crate::{Flow, Result};

/// What the copies have in common.
struct Shared<T> {
    upstream: Box<dyn Pull<T>>,
    /// The operator that is copied.
    input: Arc<Node>,
    copies: Vec<Copy<T>>,
    max_lead: usize,
    is_over: bool,
}

struct Copy<T> {
    /// What others have pulled and it has not.
    queue: VecDeque<Tagged<T>>,
    /// Wakes the caller that waits for the other copies.
    waker: Option<Waker>,
    /// The caller that pulled it last.
    puller: Option<usize>,
    is_dropped: bool,
}

impl<T: Clone> Shared<T> {
    fn poll_next(&mut self, number: usize, node: &Node, turn: &mut Turn<'_>) -> Polled<T> {
        let Some(own) = self.copies.get_mut(number) else { return Poll::Ready(None) };
        own.puller = Some(turn.puller());
        if let Some(tagged) = own.queue.pop_front() {
            self.wake_others(number);
            return Poll::Ready(Some(Ok(tagged)));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.lead() >= self.max_lead {
            self.wait(number, node, turn);
            return Poll::Pending;
        }
        match self.upstream.poll_next(turn) {
            Poll::Ready(Some(Ok(tagged))) => {
                self.hand_out(number, &tagged);
                Poll::Ready(Some(Ok(tagged)))
            }
            Poll::Ready(None) => {
                self.is_over = true;
                self.wake_others(number);
                Poll::Ready(None)
            }
            // Whoever of the copies pulls next gets what follows.
            other @ (Poll::Ready(Some(Err(_))) | Poll::Pending) => other,
        }
    }

    /// How far the copy that is the most behind is behind: the one that pulls is the first of all.
    fn lead(&self) -> usize {
        self.copies.iter().filter(|copy| !copy.is_dropped).map(|copy| copy.queue.len()).max().unwrap_or(0)
    }

    fn hand_out(&mut self, number: usize, tagged: &Tagged<T>) {
        for (other, copy) in self.copies.iter_mut().enumerate() {
            if other != number && !copy.is_dropped {
                copy.queue.push_back(tagged.clone());
                copy.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    fn wait(&mut self, number: usize, node: &Node, turn: &mut Turn<'_>) {
        let puller = turn.puller();
        let is_behind = |copy: &&Copy<T>| !copy.is_dropped && !copy.queue.is_empty();
        let elsewhere = |copy: &Copy<T>| copy.puller.is_some_and(|other| other != puller);
        // Those who are behind are pulled by others, who will go on.
        let waker = if self.copies.iter().filter(is_behind).all(elsewhere) {
            turn.waker().clone()
        } else {
            turn.other_waker(|| no_one_behind(&node.name())).clone()
        };
        if let Some(own) = self.copies.get_mut(number) {
            own.waker = Some(waker);
        }
    }

    fn wake_others(&mut self, number: usize) {
        let others = self.copies.iter_mut().enumerate().filter(|(other, _)| *other != number);
        others.filter_map(|(_, copy)| copy.waker.take()).for_each(Waker::wake);
    }
}

fn no_one_behind(copy: &str) -> String {
    format!(
        "{copy}: this copy is as far ahead as it may be, and the copy behind it is not pulled by anybody else; pull both, or \
         allow a larger lead"
    )
}

/// One of the copies.
struct Duplicate<T> {
    shared: Arc<Mutex<Shared<T>>>,
    number: usize,
    node: Arc<Node>,
}

impl<T: Clone + Send> Pull<T> for Duplicate<T> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        self.shared.lock().poll_next(self.number, &self.node, turn)
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        if !checkpoint.is_first_at(Arc::as_ptr(&self.shared).addr()) {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        checkpoint.holds(shared.copies.iter().map(|copy| copy.queue.len()).sum());
        checkpoint.flag(&mut shared.is_over);
        shared.upstream.checkpoint(checkpoint)
    }
}

impl<T> Drop for Duplicate<T> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        if let Some(own) = shared.copies.get_mut(self.number) {
            own.is_dropped = true;
            own.queue.clear();
        }
        let wakers: Vec<Waker> = shared.copies.iter_mut().filter_map(|copy| copy.waker.take()).collect();
        drop(shared);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<T: Clone + Send + 'static> Flow<T> {
    /// Copies of the flow, each with all items. A copy may be `max_lead` items ahead of the others, at least one; then it waits until these were pulled, so
    /// that no more than `max_lead` items are kept. An error comes to the copy that pulls, and only there.
    ///
    /// Pulling one copy alone, and waiting for it, is an [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock) error once it is that far ahead, unless another thread pulls those
    /// behind; [`next_within`](Flow::next_within) waits its time for somebody to do so. A copy that is dropped is waited for no more.
    ///
    /// ```
    /// use relive_flow::{Flow, Order, Stepped};
    ///
    /// let [mut one, mut other] = Flow::from_iter("numbers", 0..2).duplicate(1);
    /// assert_eq!(one.step()?, Stepped::Item(0));
    /// assert_eq!(one.step()?, Stepped::Waiting);
    /// assert_eq!(other.step()?, Stepped::Item(0));
    /// assert_eq!(one.step()?, Stepped::Item(1));
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn duplicate<const N: usize>(self, max_lead: usize) -> [Flow<T>; N] {
        let (shared, metrics) = Shared::of(self, N, max_lead);
        std::array::from_fn(|number| Shared::copy(&shared, (number, N), metrics.clone()))
    }

    /// [`duplicate`](Self::duplicate) for a number of copies that is not known before.
    #[must_use]
    pub fn copies(self, count: usize, max_lead: usize) -> Vec<Flow<T>> {
        let (shared, metrics) = Shared::of(self, count, max_lead);
        (0..count).map(|number| Shared::copy(&shared, (number, count), metrics.clone())).collect()
    }
}

impl<T: Clone + Send + 'static> Shared<T> {
    fn of(flow: Flow<T>, count: usize, max_lead: usize) -> (Arc<Mutex<Shared<T>>>, Metrics) {
        let fresh = || Copy { queue: VecDeque::new(), waker: None, puller: None, is_dropped: false };
        let copies = (0..count).map(|_| fresh()).collect();
        let Flow { pull: upstream, node: input, metrics, .. } = flow;
        let shared = Shared { upstream, input, copies, max_lead: max_lead.max(1), is_over: false };
        (Arc::new(Mutex::new(shared)), metrics)
    }

    fn copy(shared: &Arc<Mutex<Shared<T>>>, (number, of): (usize, usize), metrics: Metrics) -> Flow<T> {
        let input = Arc::clone(&shared.lock().input);
        let node = Node::queue(format!("copy {number} of {of}"), vec![input]);
        let copy = Duplicate { shared: Arc::clone(shared), number, node: Arc::clone(&node) };
        Flow::new(copy, node, metrics)
    }
}
