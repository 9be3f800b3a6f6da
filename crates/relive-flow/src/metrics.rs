//! Metrics that the operators of a graph share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Counters, values and timers by name. All operators of a connected graph share them, because joining flows merges
/// their metrics.
///
/// ```
/// use relive_flow::{Flow, Order};
///
/// let one = Flow::from_iter("one", 0..3).inspect_with(|context, _| context.metrics.add("steps", 10));
/// let other = Flow::from_iter("other", 0..2).inspect_with(|context, _| context.metrics.add("steps", 1));
/// let mut joined = Flow::union([one, other], Order::RoundRobin);
/// while joined.next().transpose()?.is_some() {}
/// assert_eq!(joined.metrics().counter("steps"), 32);
/// # Ok::<(), relive_flow::FlowError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Holder>>);

/// The numbers or, after two graphs have been joined, a reference to the metrics that hold them.
#[derive(Debug)]
enum Holder {
    Own(Numbers),
    Joined(Metrics),
}

impl Default for Holder {
    fn default() -> Self {
        Self::Own(Numbers::default())
    }
}

/// All numbers of a graph, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) counters: BTreeMap<String, i64>,
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) timers: BTreeMap<String, Timer>,
}

/// A timer: the number of timed calls, and their total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// The number of timed calls.
    pub count: u64,
    /// The total duration.
    pub total: Duration,
}

impl Timer {
    /// Returns the average duration, or `None` if there were no calls.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let nanoseconds = self.total.as_nanos().checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }
}

impl Metrics {
    /// Adds to a counter, which starts at 0.
    pub fn add(&self, name: &str, amount: i64) {
        self.with(|numbers| match numbers.counters.get_mut(name) {
            Some(counter) => *counter += amount,
            None => {
                numbers.counters.insert(name.to_owned(), amount);
            }
        });
    }

    /// Returns the value of a counter.
    #[must_use]
    pub fn counter(&self, name: &str) -> i64 {
        self.with(|numbers| numbers.counters.get(name).copied().unwrap_or(0))
    }

    /// Sets a value.
    pub fn set(&self, name: &str, value: f64) {
        self.with(|numbers| {
            numbers.values.insert(name.to_owned(), value);
        });
    }

    /// Returns a value, if it was set.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.with(|numbers| numbers.values.get(name).copied())
    }

    /// Adds a duration to a timer.
    pub fn time(&self, name: &str, took: Duration) {
        self.with(|numbers| {
            let timer = numbers.timers.entry(name.to_owned()).or_default();
            timer.count += 1;
            timer.total = timer.total.saturating_add(took);
        });
    }

    /// Returns a timer.
    #[must_use]
    pub fn timer(&self, name: &str) -> Timer {
        self.with(|numbers| numbers.timers.get(name).copied().unwrap_or_default())
    }

    /// Returns all counters, for saving and resuming a run.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<String, i64> {
        self.with(|numbers| numbers.counters.clone())
    }

    /// Replaces all counters.
    pub fn restore_counters(&self, counters: BTreeMap<String, i64>) {
        self.with(|numbers| numbers.counters = counters);
    }

    /// Returns all numbers.
    pub(crate) fn numbers(&self) -> Numbers {
        self.with(|numbers| numbers.clone())
    }

    /// Replaces all numbers.
    pub(crate) fn set_numbers(&self, new: Numbers) {
        self.with(|numbers| *numbers = new);
    }

    /// Merges these metrics with others. Counters and timers are added. If both have a value with the same name, the
    /// value of `others` is kept.
    pub(crate) fn join(&self, others: &Metrics) {
        // Without this, two threads that join the same graphs could make each graph the holder of the other.
        static JOINING: Mutex<()> = Mutex::new(());
        let _alone = JOINING.lock();
        let (mine, theirs) = (self.holder(), others.holder());
        if Arc::ptr_eq(&mine.0, &theirs.0) {
            return;
        }
        let held = std::mem::replace(&mut *mine.0.lock(), Holder::Joined(theirs.clone()));
        let Holder::Own(numbers) = held else { return };
        theirs.with(|all| {
            for (name, amount) in numbers.counters {
                *all.counters.entry(name).or_insert(0) += amount;
            }
            for (name, timer) in numbers.timers {
                let sum = all.timers.entry(name).or_default();
                *sum = Timer { count: sum.count + timer.count, total: sum.total.saturating_add(timer.total) };
            }
            for (name, value) in numbers.values {
                all.values.entry(name).or_insert(value);
            }
        });
    }

    /// Returns the handle that contains the numbers.
    fn holder(&self) -> Metrics {
        match &*self.0.lock() {
            Holder::Own(_) => self.clone(),
            Holder::Joined(next) => next.holder(),
        }
    }

    fn with<R>(&self, use_numbers: impl FnOnce(&mut Numbers) -> R) -> R {
        match &mut *self.0.lock() {
            Holder::Own(numbers) => use_numbers(numbers),
            Holder::Joined(next) => next.with(use_numbers),
        }
    }
}
