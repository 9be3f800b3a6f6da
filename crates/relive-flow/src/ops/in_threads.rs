//! Applying a function to several items at a time, in threads.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::Context;
use crate::checkpoint::Checkpoint;
use crate::item::Tagged;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::pull::{Polled, Pull, Turn};
use crate::sync::{self, Condvar, JoinHandle, Mutex};
use crate::waits::{Need, Puller};
use crate::{ErrorKind, Flow, FlowError, Result};

/// Calls a function in threads, which start when they are needed.
struct InThreads<T, U> {
    upstream: Box<dyn Pull<T>>,
    most: usize,
    calls: Arc<Calls<T, U>>,
    threads: Vec<JoinHandle<()>>,
    /// The number of items whose results have not been taken.
    running: usize,
    seen: u64,
    is_over: bool,
    /// Represents the threads in waits.
    worker: Arc<Puller>,
}

/// The function, with its items and results.
struct Calls<T, U> {
    queue: Mutex<Queue<T, U>>,
    /// Notified when there is an item or the threads should stop.
    changed: Condvar,
    call: Box<Call<T, U>>,
}

type Call<T, U> = dyn Fn(u64, Tagged<T>) -> Result<Tagged<U>> + Send + Sync;

struct Queue<T, U> {
    items: VecDeque<(u64, Tagged<T>)>,
    results: VecDeque<Result<Tagged<U>>>,
    /// The number of threads that wait for an item.
    idle: usize,
    /// Wakes the puller that is waiting for a result.
    puller: Option<Waker>,
    stops: bool,
}

impl<T, U> Calls<T, U> {
    /// The body of a thread.
    fn run(&self) {
        while let Some((number, item)) = self.next() {
            let result = (self.call)(number, item);
            let mut queue = self.queue.lock();
            queue.results.push_back(result);
            let puller = queue.puller.take();
            drop(queue);
            puller.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for an item. Returns `None` if the thread should stop.
    fn next(&self) -> Option<(u64, Tagged<T>)> {
        let mut queue = self.queue.lock();
        queue.idle += 1;
        while queue.items.is_empty() && !queue.stops {
            self.changed.wait(&mut queue);
        }
        queue.idle -= 1;
        if queue.stops { None } else { queue.items.pop_front() }
    }
}

impl<T: Send + 'static, U: Send + 'static> InThreads<T, U> {
    fn submit(&mut self, item: Tagged<T>) -> Result<()> {
        let mut queue = self.calls.queue.lock();
        queue.items.push_back((self.seen, item));
        let needs_thread = queue.idle < queue.items.len() && self.threads.len() < self.most;
        drop(queue);
        self.seen += 1;
        self.running += 1;
        if !needs_thread {
            self.calls.changed.notify_one();
            return Ok(());
        }
        let calls = Arc::clone(&self.calls);
        match sync::spawn("for_each", move || calls.run()) {
            Ok(thread) => self.threads.push(thread),
            // The other threads process the item.
            Err(_) if !self.threads.is_empty() => _ = self.calls.changed.notify_one(),
            Err(error) => {
                self.running -= 1;
                let item = self.calls.queue.lock().items.pop_back();
                drop(item);
                let text = format!("cannot start a thread for a function: {error}");
                return Err(FlowError::new(ErrorKind::Operator, text));
            }
        }
        Ok(())
    }

    /// Returns a result, or `None` if the puller must wait for one.
    fn take(&mut self, turn: &mut Turn<'_>, waits: bool) -> Option<Result<Tagged<U>>> {
        let mut queue = self.calls.queue.lock();
        let result = queue.results.pop_front();
        if result.is_some() {
            self.running -= 1;
        } else if waits && self.running > 0 {
            queue.puller = Some(turn.waker_for(Need::Worker(Arc::clone(&self.worker))).clone());
        }
        result
    }
}

impl<T: Send + 'static, U: Send + 'static> Pull<U> for InThreads<T, U> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<U> {
        loop {
            if let Some(result) = self.take(turn, false) {
                return Poll::Ready(Some(result));
            }
            if self.is_over || self.running >= self.most {
                break;
            }
            match self.upstream.poll_next(turn) {
                Poll::Ready(Some(Ok(item))) => {
                    if let Err(error) = self.submit(item) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => self.is_over = true,
                Poll::Pending if turn.is_stopped() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if self.is_over && self.running == 0 {
            return Poll::Ready(None);
        }
        self.take(turn, true).map_or(Poll::Pending, |result| Poll::Ready(Some(result)))
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Err(checkpoint.refusal("items that are processed in threads cannot be saved"))
    }
}

impl<T, U> Drop for InThreads<T, U> {
    fn drop(&mut self) {
        self.calls.queue.lock().stops = true;
        for _ in &self.threads {
            self.calls.changed.notify_one();
        }
        for thread in self.threads.drain(..) {
            // `join` cannot fail: panics of the function become errors.
            let _ = thread.join();
        }
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Applies a fallible function to up to `threads` items at a time, each in a thread. Results are returned in the
    /// order in which they are finished; each keeps the source of its item. A `threads` of 0 is an
    /// [`ErrorKind::Invalid`] error at the first pull.
    ///
    /// ```
    /// use relive_flow::Flow;
    ///
    /// let words = Flow::from_iter("words", ["1", "2", "3"]);
    /// let numbers = words.try_for_each_in_threads(2, |_, word| word.parse::<u64>());
    /// assert_eq!(numbers.into_iter().sum::<Result<u64, _>>()?, 6);
    /// # Ok::<(), relive_flow::FlowError>(())
    /// ```
    #[must_use]
    pub fn try_for_each_in_threads<U: Send + 'static, E>(
        self,
        threads: usize,
        function: impl Fn(Context<'_>, T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Flow<U>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        if threads == 0 {
            let fault = "0 threads process nothing; the number of threads must be at least 1";
            let node = Node::new("for_each", vec![self.node]);
            return Flow::refused(node, self.metrics, fault);
        }
        let metrics = self.metrics.clone();
        self.then("for_each", |upstream, node| InThreads {
            upstream,
            most: threads,
            calls: Arc::new(calls(node, metrics, function)),
            threads: Vec::new(),
            running: 0,
            seen: 0,
            is_over: false,
            worker: Puller::worker("for_each"),
        })
    }
}

fn calls<T, U, E>(
    node: Arc<Node>,
    metrics: Metrics,
    function: impl Fn(Context<'_>, T) -> Result<U, E> + Send + Sync + 'static,
) -> Calls<T, U>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let call = move |item: u64, tagged: Tagged<T>| {
        let source = tagged.source;
        let context = Context { metrics: &metrics, source, item };
        let item = node.try_call(source, item, || function(context, tagged.item))?;
        Ok(Tagged { item, source })
    };
    let queue =
        Queue { items: VecDeque::new(), results: VecDeque::new(), idle: 0, puller: None, stops: false };
    Calls { queue: Mutex::new(queue), changed: Condvar::new(), call: Box::new(call) }
}
