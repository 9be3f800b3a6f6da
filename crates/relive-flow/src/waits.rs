//! Tracks which threads wait for which, to detect a graph that waits for itself.
//!
//! A thread without an item declares what could provide one: another thread that makes items, or the threads
//! that pull other parts of the graph. Once none of them can make progress, the thread that pulls the end of
//! the graph gets an error.

use std::sync::{Arc, OnceLock, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use parking_lot::Mutex as Held;

use crate::sync::{self, Condvar, Mutex, all_pullers};

/// How often a thread that waits for others checks whether they still make progress.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long a waiting thread gives others to start pulling a part of the graph that none pulls: many times
/// longer than a thread takes to start.
pub(crate) const BEGINNING: Duration = Duration::from_secs(1);

/// A pulling thread, as others see it.
#[derive(Debug)]
pub(crate) struct Puller {
    /// Its name, if it makes items for another thread.
    worker: Option<String>,
    /// Only accessed while [`all_pullers`] is held, so a model has nothing to explore in it.
    state: Held<State>,
}

#[derive(Debug, Default)]
enum State {
    /// Is active, in the graph or elsewhere, or waits for something outside of the graph.
    #[default]
    Runs,
    /// Waits for an item.
    Waits { needs: Vec<Need>, signal: Arc<Signal> },
    /// Makes nothing until this thread takes something.
    Idles { taker: Weak<Puller> },
}

/// What could end a wait.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// A thread that makes items.
    Worker(Arc<Puller>),
    /// Other parts of the graph, all of which must be pulled.
    Parts(Vec<Part>, String),
}

/// A part of the graph that must be pulled.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The thread that last pulled it; `None` if it was never pulled.
    pub(crate) puller: Option<Weak<Puller>>,
    /// The deadline for a thread to start pulling it.
    pub(crate) until: Instant,
}

/// A query whether another thread makes progress: the thread that asks, and the threads visited so far.
struct Asking<'a> {
    by: &'a Puller,
    path: Vec<*const Puller>,
}

impl Puller {
    /// The thread that makes items under this name.
    pub(crate) fn worker(name: &str) -> Arc<Self> {
        Arc::new(Self { worker: Some(name.to_owned()), state: Held::default() })
    }

    /// This thread.
    pub(crate) fn current() -> Arc<Self> {
        // A thread that is ending is no longer registered.
        OWN.try_with(|own| Arc::clone(own.get_or_init(Self::other))).unwrap_or_else(|_| Self::other())
    }

    /// Notes that this thread has pulled. Returns whether another thread did before.
    pub(crate) fn note(last: &mut Option<Weak<Puller>>) -> bool {
        let current = Self::current();
        let is_noted = last.as_ref().is_some_and(|last| std::ptr::eq(last.as_ptr(), &raw const *current));
        if !is_noted {
            *last = Some(Arc::downgrade(&current));
        }
        !is_noted
    }

    /// A thread that makes no items for others.
    fn other() -> Arc<Self> {
        Arc::new(Self { worker: None, state: Held::default() })
    }

    /// Registers this thread under this identity.
    pub(crate) fn enter(self: &Arc<Self>) {
        // A thread registers only once, at its start.
        let _ = OWN.try_with(|own| own.set(Arc::clone(self)));
    }

    /// Notes that it makes nothing until this thread takes something.
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

    /// Whether it will make progress eventually, and so will what it pulls.
    fn goes_on(&self, asking: &mut Asking<'_>) -> bool {
        if asking.path.contains(&std::ptr::from_ref(self)) {
            return false;
        }
        // Threads that make no items for others detect by themselves that the graph is stuck, so there is
        // only one error.
        if asking.by.worker.is_some() && self.worker.is_none() {
            return true;
        }
        asking.path.push(self);
        let goes_on = match &*self.state.lock() {
            State::Runs => true,
            State::Idles { taker } => taker.upgrade().is_some_and(|taker| taker.goes_on(asking)),
            State::Waits { needs, signal } => {
                signal.is_woken() || needs.iter().any(|need| need.is_met_some_time(asking))
            }
        };
        asking.path.pop();
        goes_on
    }

    /// The reason why the graph is stuck, if this thread waits for something that will not happen.
    fn stuck(&self) -> Option<String> {
        let all = all_pullers();
        let is_stuck = !self.goes_on(&mut Asking { by: self, path: Vec::new() });
        let texts = is_stuck.then(|| {
            let mut told = Told::default();
            self.tell(&mut told);
            told.texts.join("; ")
        });
        drop(all);
        texts
    }

    fn tell(&self, told: &mut Told) {
        if told.threads.contains(&std::ptr::from_ref(self)) {
            return;
        }
        told.threads.push(self);
        let needs = match &*self.state.lock() {
            State::Waits { needs, .. } => needs.clone(),
            State::Runs | State::Idles { .. } => return,
        };
        for need in &needs {
            match need {
                Need::Worker(worker) => worker.tell(told),
                Need::Parts(parts, text) => {
                    let parts: Vec<String> = parts.iter().map(Part::why_not).collect();
                    let text = format!("{text}: {}", parts.join(", "));
                    if !told.texts.contains(&text) {
                        told.texts.push(text);
                    }
                }
            }
        }
    }
}

/// The reasons for waits, collected from thread to thread.
#[derive(Default)]
struct Told {
    threads: Vec<*const Puller>,
    texts: Vec<String>,
}

impl Need {
    fn is_met_some_time(&self, asking: &mut Asking<'_>) -> bool {
        match self {
            Need::Worker(worker) => worker.goes_on(asking),
            Need::Parts(parts, _) => parts.iter().all(|part| part.is_pulled_some_time(asking)),
        }
    }
}

impl Part {
    fn is_pulled_some_time(&self, asking: &mut Asking<'_>) -> bool {
        let puller = self.puller.as_ref().and_then(Weak::upgrade);
        let works_for_another = puller.as_ref().is_some_and(|puller| puller.worker.is_some());
        let is_pulled = puller.is_some_and(|puller| puller.goes_on(asking));
        // Any thread may start to pull a part that no thread of the graph pulls.
        is_pulled || (!works_for_another && Instant::now() < self.until)
    }

    fn why_not(&self) -> String {
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

/// Wakes the thread that waits for an item.
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

    /// Sleeps until it is woken or the deadline passes. Returns whether it was woken.
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

    /// Whether it was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.is_woken.lock())
    }
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It was woken.
    Woken,
    /// The deadline passed.
    Late,
    /// Nothing will arrive: the graph waits for itself, as the text explains.
    Stuck(String),
}

/// Waits for the signal, until the deadline. With `needs`, nothing else can give the signal.
pub(crate) fn wait(signal: &Arc<Signal>, needs: Option<Vec<Need>>, until: Option<Instant>) -> Waited {
    if sync::soon(|| signal.is_woken()) {
        signal.take();
        return Waited::Woken;
    }
    let Some(needs) = needs else {
        let is_woken = signal.sleep(until);
        signal.take();
        return waited(is_woken);
    };
    let puller = Puller::current();
    puller.set(State::Waits { needs, signal: Arc::clone(signal) });
    let waited = loop {
        if let Some(text) = puller.stuck() {
            break Waited::Stuck(text);
        }
        let look = Instant::now() + LOOK_AGAIN;
        let is_last = until.is_some_and(|until| until <= look);
        let is_woken = signal.sleep(until.filter(|_| is_last).or(Some(look)));
        if is_woken || is_last {
            break waited(is_woken);
        }
    };
    puller.set_running();
    // Only now: until then, it shows the others that this thread makes progress.
    signal.take();
    waited
}

fn waited(is_woken: bool) -> Waited {
    if is_woken { Waited::Woken } else { Waited::Late }
}

#[cfg(not(relive_loom))]
thread_local! {
    static OWN: OnceLock<Arc<Puller>> = const { OnceLock::new() };
}

#[cfg(relive_loom)]
loom::thread_local! {
    static OWN: OnceLock<Arc<Puller>> = OnceLock::new();
}
