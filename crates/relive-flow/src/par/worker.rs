//! A shard in a thread.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use super::executor::Around;
use super::shard::ShardFlow;
use crate::item::Tagged;
use crate::pull::{Polled, Stop, Turn};
use crate::sync::{self, AtomicBool, Condvar, JoinHandle, Mutex, Ordering};
use crate::waits::{Need, Puller};
use crate::{ErrorKind, Flow, FlowError, Result};

/// The thread of a shard, as seen by the puller.
pub(crate) struct Worker<T> {
    shared: Arc<Handover<T>>,
    thread: Option<JoinHandle<()>>,
    /// Items that were taken from the thread together.
    taken: VecDeque<Option<Result<Tagged<T>>>>,
}

struct Handover<T> {
    state: Mutex<HandoverState<T>>,
    /// Notified when items are requested or the thread should stop.
    changed: Condvar,
    /// Whether the thread is to end. `Relaxed` suffices: whoever sets it then takes the lock of `state` or wakes the
    /// thread, and the thread checks it again after each of the two.
    stops: AtomicBool,
    /// The identity of the thread, for threads that are waiting for it.
    worker: Arc<Puller>,
}

/// The state that the thread and its puller share.
struct HandoverState<T> {
    /// The number of requested items that have not been produced yet.
    requested: usize,
    produced: VecDeque<Option<Result<Tagged<T>>>>,
    /// Wakes the puller that is waiting for an item.
    puller: Option<Waker>,
    /// Wakes the shard's stream if the stream is waiting for something.
    stream: Option<Waker>,
    /// The thread that last took items.
    taker: Option<Weak<Puller>>,
    /// Whether the thread is waiting for a request.
    is_idle: bool,
}

impl<T> HandoverState<T> {
    fn new() -> Self {
        Self {
            requested: 0,
            produced: VecDeque::new(),
            puller: None,
            stream: None,
            taker: None,
            is_idle: false,
        }
    }
}

/// The reason why the thread stopped producing items.
enum StopReason<T> {
    /// No more items are requested.
    All,
    /// An error or the end of the stream.
    Ended(Option<Result<Tagged<T>>>),
    /// The stream is waiting for something.
    Waits,
}

impl<T: Send + 'static> Worker<T> {
    pub(crate) fn start(flow: ShardFlow<T>) -> Result<Self> {
        let shared = Arc::new(Handover {
            state: Mutex::new(HandoverState::new()),
            changed: Condvar::new(),
            stops: AtomicBool::new(false),
            worker: Puller::worker(flow.name()),
        });
        let of_thread = Arc::clone(&shared);
        let name = flow.name().to_owned();
        let thread = sync::spawn(&name, move || of_thread.run(flow));
        let thread = thread.map_err(|error| {
            FlowError::new(ErrorKind::Operator, format!("cannot start a thread for a shard: {error}"))
        })?;
        Ok(Self { shared, thread: Some(thread), taken: VecDeque::new() })
    }

    pub(crate) fn ask(&self, items: usize) {
        let mut state = self.shared.state.lock();
        let slept = state.requested == 0;
        state.requested += items;
        if std::mem::take(&mut state.is_idle) {
            self.shared.worker.set_running();
        }
        drop(state);
        if slept {
            self.shared.changed.notify_one();
        }
    }

    pub(crate) fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if self.taken.is_empty() {
            let mut state = self.shared.state.lock();
            if Puller::note(&mut state.taker) && state.is_idle {
                self.shared.worker.set_idle(state.taker.clone().unwrap_or_default());
            }
            std::mem::swap(&mut self.taken, &mut state.produced);
            if self.taken.is_empty() {
                let need = Need::Worker(Arc::clone(&self.shared.worker));
                state.puller = Some(turn.waker_for(need).clone());
            }
        }
        self.taken.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T: Send + 'static> Handover<T> {
    /// The body of the thread: produces requested items until the stream ends or the puller is gone.
    fn run(&self, mut flow: ShardFlow<T>) {
        let around = flow.around.take().unwrap_or_else(|| Arc::new(|make| while make() {}));
        self.worker.enter();
        while self.is_wanted() {
            let register = |waker: &Waker| self.state.lock().stream = Some(waker.clone());
            let item = match flow.flow() {
                Ok(Some(stream)) => match self.make(stream, &around) {
                    StopReason::All => continue,
                    StopReason::Ended(item) => item,
                    StopReason::Waits => match stream.next_unless(&self.stops, register, &*around) {
                        Some(item) => item,
                        None => return,
                    },
                },
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            };
            let Some(item) = flow.after(item) else { continue };
            if item.is_some() {
                self.hand_over(item);
            }
            if flow.is_over() {
                self.hand_over(None);
                return;
            }
        }
    }

    /// Produces items and passes them to the puller until no more are requested, or until the stream returns something
    /// other than an item. While it produces, it acquires no lock and drops nothing, because `around` may hold a lock
    /// for which other threads are waiting.
    fn make(&self, stream: &mut Flow<T>, around: &Around) -> StopReason<T> {
        let mut made = StopReason::All;
        around(&mut || {
            made = match stream.poll_to(Stop::Never).0 {
                Poll::Ready(item @ Some(Ok(_))) => {
                    return self.hand_over(item) && !self.stops.load(Ordering::Relaxed);
                }
                Poll::Ready(ended) => StopReason::Ended(ended),
                Poll::Pending => StopReason::Waits,
            };
            false
        });
        made
    }

    /// Passes an item or the end of the stream to the puller. Returns whether more items are requested.
    fn hand_over(&self, item: Option<Result<Tagged<T>>>) -> bool {
        let mut state = self.state.lock();
        state.produced.push_back(item);
        state.requested = state.requested.saturating_sub(1);
        let (puller, is_wanted) = (state.puller.take(), state.requested > 0);
        drop(state);
        puller.into_iter().for_each(Waker::wake);
        is_wanted
    }

    /// Waits until an item is requested. Returns false if no more items will be requested.
    fn is_wanted(&self) -> bool {
        sync::spin_until(|| self.state.lock().requested > 0);
        let mut state = self.state.lock();
        while state.requested == 0 && !self.stops.load(Ordering::Relaxed) {
            if !std::mem::replace(&mut state.is_idle, true) {
                self.worker.set_idle(state.taker.clone().unwrap_or_default());
            }
            self.changed.wait(&mut state);
        }
        !self.stops.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        let stream = self.shared.state.lock().stream.take();
        stream.into_iter().for_each(Waker::wake);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // `join` cannot fail: panics of operators' functions become errors.
            let _ = thread.join();
        }
    }
}
