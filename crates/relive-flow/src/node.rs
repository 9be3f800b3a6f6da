//! An operator of a graph, with its name and counters.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::checkpoint::Checkpoint;
use crate::error::Place;
use crate::item::{Source, Tagged};
use crate::pull::{Polled, Pull, Stop, Turn};
use crate::{ErrorKind, FlowError, Result};

/// An operator and its inputs.
#[derive(Debug)]
pub(crate) struct Node {
    name: RwLock<Arc<str>>,
    inputs: Vec<Arc<Node>>,
    /// The shards from which the operator pulls, if any.
    shards: Option<Arc<ShardNodes>>,
    /// The number of items that have left the operator. Only the puller writes it.
    items: AtomicU64,
    errors: AtomicU64,
    /// The total size of those items in bytes, counted where their size is known; see [`NOT_MEASURED`].
    bytes: AtomicU64,
    /// The number of items that the operator has dropped from its queue, if it may drop any; see [`NOT_DROPPING`].
    dropped: AtomicU64,
    /// Whether the operator queues the items that it has pulled, without changing their number.
    is_queue: bool,
    /// When the current pull began to wait in the operator, in nanoseconds since the program's first wait; 0 if no pull
    /// is waiting.
    waits_since: AtomicU64,
}

/// The last operators of shards, by index of the shard. An operator is known once its shard has started.
#[derive(Debug)]
pub(crate) struct ShardNodes(Mutex<Vec<Option<Arc<Node>>>>);

impl ShardNodes {
    pub(crate) fn new(shards: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![None; shards])))
    }

    /// Sets the last operator of the shard with the given index.
    pub(crate) fn set(&self, place: usize, end: &Arc<Node>) {
        if let Some(slot) = self.0.lock().get_mut(place) {
            *slot = Some(Arc::clone(end));
        }
    }

    /// Returns whether a shard has not started.
    pub(crate) fn has_unstarted(&self) -> bool {
        self.0.lock().iter().any(Option::is_none)
    }

    /// Returns the last operators of the shards that have started.
    pub(crate) fn ends(&self) -> Vec<Arc<Node>> {
        self.0.lock().iter().flatten().cloned().collect()
    }
}

/// The byte count of unmeasured items.
const NOT_MEASURED: u64 = u64::MAX;

/// The count of dropped items of an operator that drops none.
const NOT_DROPPING: u64 = u64::MAX;

/// The origin of all wait times.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the nanoseconds since [`BEGUN`], at least 1.
fn now() -> u64 {
    u64::try_from(BEGUN.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Node {
    pub(crate) fn new(name: impl Into<String>, inputs: Vec<Arc<Node>>) -> Arc<Self> {
        Arc::new(Self::over(name, inputs, None))
    }

    /// Creates an operator with a queue, and with the same number of items at its input and output.
    pub(crate) fn queue(name: impl Into<String>, inputs: Vec<Arc<Node>>) -> Arc<Self> {
        Arc::new(Self { is_queue: true, ..Self::over(name, inputs, None) })
    }

    /// Creates an operator with a queue from which it may drop items.
    pub(crate) fn dropping_queue(name: impl Into<String>, inputs: Vec<Arc<Node>>) -> Arc<Self> {
        Arc::new(Self { is_queue: true, dropped: AtomicU64::new(0), ..Self::over(name, inputs, None) })
    }

    /// Creates an operator that pulls from shards, with or without a [`queue`](Self::queue).
    pub(crate) fn of_shards(name: impl Into<String>, shards: Arc<ShardNodes>, is_queue: bool) -> Arc<Self> {
        Arc::new(Self { is_queue, ..Self::over(name, Vec::new(), Some(shards)) })
    }

    fn over(name: impl Into<String>, inputs: Vec<Arc<Node>>, shards: Option<Arc<ShardNodes>>) -> Self {
        let [items, errors, waits_since] = [const { AtomicU64::new(0) }; 3];
        let (bytes, dropped) = (AtomicU64::new(NOT_MEASURED), AtomicU64::new(NOT_DROPPING));
        let name = RwLock::new(Arc::from(name.into()));
        Self { name, inputs, shards, items, errors, bytes, dropped, is_queue: false, waits_since }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }

    pub(crate) fn rename(&self, name: &str) {
        *self.name.write() = Arc::from(name);
    }

    pub(crate) fn inputs(&self) -> &[Arc<Node>] {
        &self.inputs
    }

    pub(crate) fn shards(&self) -> Option<&Arc<ShardNodes>> {
        self.shards.as_ref()
    }

    pub(crate) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Returns the total size in bytes of the items that have left the operator, if it is measured.
    pub(crate) fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != NOT_MEASURED)
    }

    /// Starts to measure the size of the operator's items.
    fn begin_bytes(&self) {
        self.bytes.store(self.bytes().unwrap_or(0), Ordering::Relaxed);
    }

    /// Adds the size of an item, in bytes. Only the puller calls this method.
    fn add_bytes(&self, bytes: usize) {
        let sum = self.bytes().unwrap_or(0).saturating_add(bytes as u64).min(NOT_MEASURED - 1);
        self.bytes.store(sum, Ordering::Relaxed);
    }

    /// Returns the number of items that the operator has dropped from its queue, if it may drop any.
    pub(crate) fn dropped(&self) -> Option<u64> {
        Some(self.dropped.load(Ordering::Relaxed)).filter(|dropped| *dropped != NOT_DROPPING)
    }

    /// Records that the operator has dropped an item. Only one thread at a time calls this method.
    pub(crate) fn add_dropped(&self) {
        self.dropped.store(self.dropped().unwrap_or(0) + 1, Ordering::Relaxed);
    }

    /// Returns the number of queued items, if the operator has a queue. Items that are taken or produced concurrently
    /// may or may not be counted. Errors are not counted, because some reach only another copy, or nobody.
    pub(crate) fn queued(&self) -> Option<u64> {
        let ends = self.shards.iter().flat_map(|shards| shards.ends());
        let come = ends.chain(self.inputs.iter().cloned()).map(|input| input.items());
        let gone = || self.items().saturating_add(self.dropped().unwrap_or(0));
        self.is_queue.then(|| come.sum::<u64>().saturating_sub(gone()))
    }

    /// Returns how long a pull has waited in the operator.
    pub(crate) fn waits(&self) -> Option<Duration> {
        let since = self.waits_since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_nanos(now().saturating_sub(since)))
    }

    /// Records the result of a pull.
    #[inline]
    fn note<T>(&self, polled: &Polled<T>) {
        if polled.is_pending() {
            if self.waits_since.load(Ordering::Relaxed) == 0 {
                self.waits_since.store(now(), Ordering::Relaxed);
            }
            return;
        }
        if self.waits_since.load(Ordering::Relaxed) != 0 {
            self.waits_since.store(0, Ordering::Relaxed);
        }
        match polled {
            Poll::Ready(Some(Ok(_))) => self.items.store(self.items() + 1, Ordering::Relaxed),
            Poll::Ready(Some(Err(_))) => self.errors.store(self.errors() + 1, Ordering::Relaxed),
            Poll::Ready(None) | Poll::Pending => {}
        }
    }

    fn checkpoint(&self, checkpoint: &mut Checkpoint) {
        let dropped = self.dropped().map(|_| &self.dropped);
        for count in [&self.items, &self.errors].into_iter().chain(dropped) {
            let mut number = count.load(Ordering::Relaxed);
            checkpoint.number(&mut number);
            count.store(number, Ordering::Relaxed);
        }
    }

    /// Calls the operator's function for an item. A panic becomes an error.
    pub(crate) fn call<R>(
        &self,
        source: Option<Source>,
        item: u64,
        function: impl FnOnce() -> R,
    ) -> Result<R> {
        caught(|| self.place(source, item), function)
    }

    /// Like [`call`](Self::call), but for a fallible function.
    pub(crate) fn try_call<R, E>(
        &self,
        source: Option<Source>,
        item: u64,
        function: impl FnOnce() -> Result<R, E>,
    ) -> Result<R>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let done = self.call(source, item, function)?;
        done.map_err(|error| FlowError::caused(self.place(source, item), error.into()))
    }

    pub(crate) fn place(&self, source: Option<Source>, item: u64) -> Place {
        Place { operator: self.name().to_string(), source, item }
    }
}

/// Calls a function of an operator. A panic becomes an error of the operator.
pub(crate) fn caught<R>(place: impl FnOnce() -> Place, function: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(function))
        .map_err(|panic| FlowError::at(ErrorKind::Panicked, place(), panic_text(&*panic)))
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// An operator whose items are counted, and whose panics become errors.
pub(crate) struct Counted<T, P> {
    pull: P,
    node: Arc<Node>,
    /// The item that was kept when a pull stopped here.
    kept: Option<Result<Tagged<T>>>,
}

impl<T, P: Pull<T>> Counted<T, P> {
    pub(crate) fn new(pull: P, node: Arc<Node>) -> Self {
        Self { pull, node, kept: None }
    }

    #[inline]
    fn poll_counted(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let pulled = self.node.call(None, self.node.items(), || self.pull.poll_next(turn));
        let polled = pulled.unwrap_or_else(|error| Poll::Ready(Some(Err(error))));
        if !(turn.is_stopped() && polled.is_pending()) {
            self.node.note(&polled);
        }
        polled
    }

    /// In a step-by-step pull, keeps the item of the operator at which the pull stops.
    fn poll_watched(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if turn.is_stopped() {
            return Poll::Pending;
        }
        let polled = self.poll_counted(turn);
        match (polled, turn.stop()) {
            (Poll::Ready(Some(item)), Stop::At(name)) if *self.node.name() == *name => {
                self.kept = Some(item);
                turn.set_stopped();
                Poll::Pending
            }
            (polled, _) => polled,
        }
    }
}

impl<T: Send, P: Pull<T>> Pull<T> for Counted<T, P> {
    #[inline]
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if self.kept.is_some() && !turn.is_stopped() {
            return Poll::Ready(self.kept.take());
        }
        if matches!(turn.stop(), Stop::Never) { self.poll_counted(turn) } else { self.poll_watched(turn) }
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let name = self.node.name();
        checkpoint.operator(&name, |checkpoint| {
            self.node.checkpoint(checkpoint);
            checkpoint.holds(usize::from(self.kept.is_some()));
            self.node.call(None, self.node.items(), || self.pull.checkpoint(checkpoint))?
        })
    }
}

/// Measures the size of an operator's items.
pub(crate) struct Measured<T, F> {
    pull: Box<dyn Pull<T>>,
    node: Arc<Node>,
    bytes: F,
}

impl<T, F: FnMut(&T) -> usize + Send> Measured<T, F> {
    pub(crate) fn new(pull: Box<dyn Pull<T>>, node: Arc<Node>, bytes: F) -> Self {
        node.begin_bytes();
        Self { pull, node, bytes }
    }
}

impl<T, F: FnMut(&T) -> usize + Send> Pull<T> for Measured<T, F> {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        let polled = self.pull.poll_next(turn);
        if let Poll::Ready(Some(Ok(tagged))) = &polled {
            self.node.add_bytes((self.bytes)(&tagged.item));
        }
        polled
    }

    fn checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.pull.checkpoint(checkpoint)
    }
}
