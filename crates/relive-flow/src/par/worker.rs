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

/// The thread of a shard, from the puller's side.
pub(crate) struct Worker<T> {
    shared: Arc<Handover<T>>,
    thread: Option<JoinHandle<()>>,
    /// Items that were taken from the thread together.
    taken: VecDeque<Option<Result<Tagged<T>>>>,
}

struct Handover<T> {
    desk: Mutex<Desk<T>>,
    /// Notified when items are requested or the thread should stop.
    changed: Condvar,
    stops: AtomicBool,
    /// The thread, for those who wait for it.
    worker: Arc<Puller>,
}

/// The exchange between thread and puller.
struct Desk<T> {
    /// Requested items that are not made yet.
    wanted: usize,
    made: VecDeque<Option<Result<Tagged<T>>>>,
    /// Wakes the puller that waits for an item.
    puller: Option<Waker>,
    /// Wakes the shard's stream where it waits for something.
    stream: Option<Waker>,
    /// The thread that last took items.
    taker: Option<Weak<Puller>>,
    /// Whether it waits for a request.
    is_idle: bool,
}

impl<T> Desk<T> {
    fn new() -> Self {
        Self { wanted: 0, made: VecDeque::new(), puller: None, stream: None, taker: None, is_idle: false }
    }
}

/// Why the thread stopped making items.
enum Made<T> {
    /// No more are requested.
    All,
    /// An error or the end of the stream.
    Ended(Option<Result<Tagged<T>>>),
    /// The stream waits for something.
    Waits,
}

impl<T: Send + 'static> Worker<T> {
    pub(crate) fn start(flow: ShardFlow<T>, around: Option<Around>) -> Result<Self> {
        let shared = Arc::new(Handover {
            desk: Mutex::new(Desk::new()),
            changed: Condvar::new(),
            stops: AtomicBool::new(false),
            worker: Puller::worker(flow.name()),
        });
        let of_thread = Arc::clone(&shared);
        let name = flow.name().to_owned();
        let thread = sync::spawn(&name, move || of_thread.run(flow, around.as_ref()));
        let thread = thread.map_err(|error| {
            FlowError::new(ErrorKind::Operator, format!("cannot start a thread for a shard: {error}"))
        })?;
        Ok(Self { shared, thread: Some(thread), taken: VecDeque::new() })
    }

    pub(crate) fn ask(&self, items: usize) {
        let mut desk = self.shared.desk.lock();
        let slept = desk.wanted == 0;
        desk.wanted += items;
        if std::mem::take(&mut desk.is_idle) {
            self.shared.worker.set_running();
        }
        drop(desk);
        if slept {
            self.shared.changed.notify_one();
        }
    }

    pub(crate) fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<T> {
        if self.taken.is_empty() {
            let mut desk = self.shared.desk.lock();
            if Puller::note(&mut desk.taker) && desk.is_idle {
                self.shared.worker.set_idle(desk.taker.clone().unwrap_or_default());
            }
            std::mem::swap(&mut self.taken, &mut desk.made);
            if self.taken.is_empty() {
                let need = Need::Worker(Arc::clone(&self.shared.worker));
                desk.puller = Some(turn.waker_for(need).clone());
            }
        }
        self.taken.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T: Send + 'static> Handover<T> {
    /// The body of the thread: makes requested items until the stream ends or is no longer wanted.
    fn run(&self, mut flow: ShardFlow<T>, around: Option<&Around>) {
        self.worker.enter();
        while self.is_wanted() {
            let register = |waker: &Waker| self.desk.lock().stream = Some(waker.clone());
            let item = match flow.flow() {
                Ok(Some(stream)) => match self.make(stream, around) {
                    Made::All => continue,
                    Made::Ended(item) => item,
                    Made::Waits => match stream.next_unless(&self.stops, register) {
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

    /// Makes items and hands them over until no more are requested, or the stream returns something else.
    /// Holds no lock meanwhile, and drops nothing: the surrounding function may hold a lock that other
    /// threads wait for.
    fn make(&self, stream: &mut Flow<T>, around: Option<&Around>) -> Made<T> {
        let mut made = Made::All;
        let mut make = || {
            made = loop {
                match stream.poll_to(Stop::Never).0 {
                    Poll::Ready(item @ Some(Ok(_))) => {
                        if !self.hand_over(item) || self.stops.load(Ordering::Relaxed) {
                            break Made::All;
                        }
                    }
                    Poll::Ready(ended) => break Made::Ended(ended),
                    Poll::Pending => break Made::Waits,
                }
            };
        };
        match around {
            Some(around) => around(&mut make),
            None => make(),
        }
        made
    }

    /// Hands an item or the end to the puller. Returns whether more are requested.
    fn hand_over(&self, item: Option<Result<Tagged<T>>>) -> bool {
        let mut desk = self.desk.lock();
        desk.made.push_back(item);
        desk.wanted = desk.wanted.saturating_sub(1);
        let (puller, is_wanted) = (desk.puller.take(), desk.wanted > 0);
        drop(desk);
        puller.into_iter().for_each(Waker::wake);
        is_wanted
    }

    /// Waits until an item is requested; false if none will be.
    fn is_wanted(&self) -> bool {
        sync::soon(|| self.desk.lock().wanted > 0);
        let mut desk = self.desk.lock();
        while desk.wanted == 0 && !self.stops.load(Ordering::Relaxed) {
            if !std::mem::replace(&mut desk.is_idle, true) {
                self.worker.set_idle(desk.taker.clone().unwrap_or_default());
            }
            self.changed.wait(&mut desk);
        }
        !self.stops.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        let stream = self.shared.desk.lock().stream.take();
        stream.into_iter().for_each(Waker::wake);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Functions of operators do not panic here, since their panics become errors.
            let _ = thread.join();
        }
    }
}
