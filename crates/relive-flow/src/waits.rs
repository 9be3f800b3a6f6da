//! Tracks which threads are waiting for which other threads, to detect a graph that waits for itself.
//!
//! A thread without an item declares what could provide one: another thread that produces items, or the threads that
//! pull other parts of the graph. If none of these threads can make progress, the thread that pulls the end of the
//! graph gets an error.

use std::sync::{Arc, OnceLock, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use parking_lot::Mutex as StateMutex;

use crate::sync::{self, Condvar, Mutex, all_pullers};

/// The interval at which a thread that is waiting for other threads checks whether they are still making progress.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long a waiting thread allows for other threads to start pulling a part of the graph that no thread pulls. This
/// is many times longer than a thread takes to start.
pub(crate) const FIRST_PULL_TIMEOUT: Duration = Duration::from_secs(1);

/// A pulling thread, as seen by other threads.
#[derive(Debug)]
pub(crate) struct Puller {
    /// The thread's name, if the thread produces items for another thread.
    worker: Option<String>,
    /// Accessed only while [`all_pullers`] is held, so a model does not need to explore it.
    state: StateMutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// The thread is active, in the graph or elsewhere, or is waiting for something outside the graph.
    #[default]
    Runs,
    /// The thread is waiting for an item.
    Waits { needs: Vec<Need>, signal: Arc<Signal> },
    /// The thread produces nothing until `taker` takes an item.
    Idles { taker: Weak<Puller> },
}

/// A condition that could end a wait.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// A thread that produces items.
    Worker(Arc<Puller>),
    /// Other parts of the graph, all of which must be pulled. Whenever one of them is pulled, the waiting thread looks
    /// again for what is missing.
    Parts(Vec<Part>, String),
    /// Another pull of a source that has reported that it has no item.
    Retry,
}

/// A part of the graph that must be pulled.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The thread that last pulled it, or `None` if it was never pulled.
    pub(crate) puller: Option<Weak<Puller>>,
    /// The deadline for a thread to start pulling it.
    pub(crate) until: Instant,
}

/// A query about whether another thread is making progress: the querying thread, and the threads visited so far.
struct ProgressQuery<'a> {
    by: &'a Puller,
    path: Vec<*const Puller>,
}

impl Puller {
    /// Returns the thread that produces items under this name.
    pub(crate) fn worker(name: &str) -> Arc<Self> {
        Arc::new(Self { worker: Some(name.to_owned()), state: StateMutex::default() })
    }

    /// Returns this thread.
    pub(crate) fn current() -> Arc<Self> {
        // A thread that is ending is no longer registered.
        OWN.try_with(|own| Arc::clone(own.get_or_init(Self::other))).unwrap_or_else(|_| Self::other())
    }

    /// Records that this thread has pulled. Returns false if this thread also made the previous pull.
    pub(crate) fn note(last: &mut Option<Weak<Puller>>) -> bool {
        let current = Self::current();
        let is_noted = last.as_ref().is_some_and(|last| std::ptr::eq(last.as_ptr(), &raw const *current));
        if !is_noted {
            *last = Some(Arc::downgrade(&current));
        }
        !is_noted
    }

    /// Returns a thread that does not produce items for others.
    fn other() -> Arc<Self> {
        Arc::new(Self { worker: None, state: StateMutex::default() })
    }

    /// Registers this thread under the given identity.
    pub(crate) fn enter(self: &Arc<Self>) {
        // A thread registers only once, at its start.
        let _ = OWN.try_with(|own| own.set(Arc::clone(self)));
    }

    /// Records that the thread produces nothing until `taker` takes an item.
    pub(crate) fn set_idle(&self, taker: Weak<Puller>) {
        self.set(State::Idles { taker });
    }

    pub(crate) fn set_running(&self) {
        self.set(State::Runs);
    }

    fn set(&self, state: State) {
        let all = all_pullers();
        let before = std::mem::replace(&mut *self.state.lock(), state);
        drop(all);
        drop(before);
    }

    /// Returns whether the thread, and everything from which it pulls, will eventually make progress.
    fn makes_progress(&self, query: &mut ProgressQuery<'_>) -> bool {
        if query.path.contains(&std::ptr::from_ref(self)) {
            return false;
        }
        // Threads that produce no items for others detect a stuck graph themselves, so that only one error is reported.
        if query.by.worker.is_some() && self.worker.is_none() {
            return true;
        }
        query.path.push(self);
        let makes_progress = match &*self.state.lock() {
            State::Runs => true,
            State::Idles { taker } => taker.upgrade().is_some_and(|taker| taker.makes_progress(query)),
            State::Waits { needs, signal } => {
                signal.is_woken() || needs.iter().any(|need| need.can_be_met(query))
            }
        };
        query.path.pop();
        makes_progress
    }

    /// Returns the reason why the graph is stuck, if this thread is waiting for something that will never happen.
    fn stuck_reason(&self) -> Option<String> {
        let all = all_pullers();
        let is_stuck = !self.makes_progress(&mut ProgressQuery { by: self, path: Vec::new() });
        let texts = is_stuck.then(|| {
            let mut reasons = WaitReasons::default();
            self.collect_reasons(&mut reasons);
            reasons.texts.join("; ")
        });
        drop(all);
        texts
    }

    fn collect_reasons(&self, reasons: &mut WaitReasons) {
        if reasons.threads.contains(&std::ptr::from_ref(self)) {
            return;
        }
        reasons.threads.push(self);
        let needs = match &*self.state.lock() {
            State::Waits { needs, .. } => needs.clone(),
            State::Runs | State::Idles { .. } => return,
        };
        for need in &needs {
            match need {
                Need::Worker(worker) => worker.collect_reasons(reasons),
                Need::Retry => {}
                Need::Parts(parts, text) => {
                    let parts: Vec<String> = parts.iter().map(Part::reason_not_pulled).collect();
                    let text = format!("{text}: {}", parts.join(", "));
                    if !reasons.texts.contains(&text) {
                        reasons.texts.push(text);
                    }
                }
            }
        }
    }
}

/// The reasons for waits, collected from thread to thread.
#[derive(Default)]
struct WaitReasons {
    threads: Vec<*const Puller>,
    texts: Vec<String>,
}

impl Need {
    pub(crate) fn is_retry(&self) -> bool {
        matches!(self, Need::Retry)
    }

    /// Returns whether all missing parts of the graph are pulled by this thread or, with `with_new`, have not been
    /// pulled by anything so far.
    pub(crate) fn is_of_this_thread(&self, with_new: bool) -> bool {
        let current = Puller::current();
        let is_own =
            |part: &Part| part.is_pulled_by(Arc::as_ptr(&current)) || (with_new && part.puller.is_none());
        match self {
            Need::Worker(_) => false,
            Need::Retry => true,
            Need::Parts(parts, _) => parts.iter().all(is_own),
        }
    }

    fn can_be_met(&self, query: &mut ProgressQuery<'_>) -> bool {
        match self {
            Need::Worker(worker) => worker.makes_progress(query),
            Need::Retry => true,
            Need::Parts(parts, _) => {
                // If another thread pulls its parts, the waiting thread is woken, and may then continue with its own.
                let waiting = query.path.last().copied().unwrap_or_default();
                let has_others = parts.iter().any(|part| !part.is_pulled_by(waiting));
                let is_left_out = |part: &Part| has_others && part.is_pulled_by(waiting);
                parts.iter().all(|part| is_left_out(part) || part.can_be_pulled(query))
            }
        }
    }
}

impl Part {
    fn is_pulled_by(&self, thread: *const Puller) -> bool {
        self.puller.as_ref().is_some_and(|puller| std::ptr::eq(puller.as_ptr(), thread))
    }

    fn can_be_pulled(&self, query: &mut ProgressQuery<'_>) -> bool {
        let puller = self.puller.as_ref().and_then(Weak::upgrade);
        let works_for_another = puller.as_ref().is_some_and(|puller| puller.worker.is_some());
        let is_pulled = puller.is_some_and(|puller| puller.makes_progress(query));
        // Any thread may still start to pull a part that no thread of the graph pulls.
        is_pulled || (!works_for_another && Instant::now() < self.until)
    }

    fn reason_not_pulled(&self) -> String {
        let Self { name, puller, .. } = self;
        let Some(puller) = puller else { return format!("nothing pulls {name}") };
        let Some(puller) = puller.upgrade() else {
            return format!("the thread that pulled {name} has ended");
        };
        let is_idle = matches!(*puller.state.lock(), State::Idles { .. });
        match &puller.worker {
            Some(worker) if is_idle => format!("{worker} pulls {name}, but nothing takes its items"),
            Some(worker) => format!("{worker} pulls {name}, and is also waiting"),
            None => format!("a thread that is waiting here pulls {name}"),
        }
    }
}

/// Wakes the thread that is waiting for an item.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_woken.lock() = true;
        self.changed.notify_one();
    }
}

impl Signal {
    pub(crate) fn is_woken(&self) -> bool {
        *self.is_woken.lock()
    }

    /// Sleeps until the signal or the deadline. Returns whether the signal was given.
    fn sleep(&self, until: Option<Instant>) -> bool {
        let mut is_woken = self.is_woken.lock();
        while !*is_woken {
            match until {
                Some(until) if self.changed.wait_until(&mut is_woken, until).timed_out() => break,
                Some(_) => {}
                None => self.changed.wait(&mut is_woken),
            }
        }
        *is_woken
    }

    /// Returns whether the signal was given since the last call.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.is_woken.lock())
    }
}

/// The result of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The thread was woken.
    Woken,
    /// The deadline passed.
    Late,
    /// Nothing will arrive: the graph waits for itself, as the text explains.
    Stuck(String),
}

/// Waits for the signal until the deadline. If `needs` is given, nothing else can give the signal.
pub(crate) fn wait(signal: &Arc<Signal>, needs: Option<Vec<Need>>, until: Option<Instant>) -> WaitOutcome {
    // A thread that pulls a source again and again makes progress, and a source without an item costs it nothing.
    let retries = needs.as_ref().is_some_and(|needs| needs.iter().any(Need::is_retry));
    let needs = needs.filter(|_| !retries);
    if !retries && sync::spin_until(|| signal.is_woken()) {
        signal.take();
        return WaitOutcome::Woken;
    }
    let Some(needs) = needs else {
        let is_woken = signal.sleep(until);
        signal.take();
        return waited(is_woken);
    };
    let puller = Puller::current();
    puller.set(State::Waits { needs, signal: Arc::clone(signal) });
    let waited = loop {
        if let Some(text) = puller.stuck_reason() {
            break WaitOutcome::Stuck(text);
        }
        let look = Instant::now() + LOOK_AGAIN;
        let is_last = until.is_some_and(|until| until <= look);
        let is_woken = signal.sleep(until.filter(|_| is_last).or(Some(look)));
        if is_woken || is_last {
            break waited(is_woken);
        }
    };
    puller.set_running();
    // Cleared only now, because until now, the signal has shown other threads that this thread is making progress.
    signal.take();
    waited
}

fn waited(is_woken: bool) -> WaitOutcome {
    if is_woken { WaitOutcome::Woken } else { WaitOutcome::Late }
}

#[cfg(not(relive_loom))]
thread_local! {
    static OWN: OnceLock<Arc<Puller>> = const { OnceLock::new() };
}

#[cfg(relive_loom)]
loom::thread_local! {
    static OWN: OnceLock<Arc<Puller>> = OnceLock::new();
}

#[cfg(all(test, not(relive_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_continues_with_its_own_parts_once_another_thread_has_pulled_its_parts() {
        let [taker, union, ahead] = ["taker", "union", "ahead"].map(Puller::worker);
        let part = |name: &str, puller: &Arc<Puller>| Part {
            name: name.to_owned(),
            puller: Some(Arc::downgrade(puller)),
            until: Instant::now(),
        };
        let waits = |puller: &Puller, need| {
            puller.set(State::Waits { needs: vec![need], signal: Arc::default() });
        };
        let missing = |parts| Need::Parts(parts, "copy 2".to_owned());
        waits(&taker, Need::Worker(Arc::clone(&union)));
        waits(&union, missing(vec![part("copy 0", &ahead), part("copy 1", &union)]));
        assert_eq!(taker.stuck_reason(), None);
        assert_eq!(union.stuck_reason(), None);
        waits(&union, missing(vec![part("copy 1", &union)]));
        assert_eq!(taker.stuck_reason().unwrap(), "copy 2: union pulls copy 1, and is also waiting");
        waits(&union, missing(vec![part("copy 0", &ahead), part("copy 1", &union)]));
        ahead.set_idle(Arc::downgrade(&union));
        let expected = "copy 2: ahead pulls copy 0, but nothing takes its items, union pulls copy 1, and is also waiting";
        assert_eq!(taker.stuck_reason().unwrap(), expected);
    }
}
