//! How a run spends its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use relive_env::State;

/// A part of the work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Choosing actions with the policy.
    Act,
    /// Stepping the environments.
    Step,
    /// Writing steps to a table, including waits for its rate limiter.
    Add,
    /// Sampling a batch, including waits for the batch if other threads act.
    Sample,
    /// Learning, including gathering the batch into rows.
    Learn,
    /// Writing new priorities to a table.
    Priorities,
    /// Publishing the learner's weights, and loading them into policies.
    Weights,
    /// Evaluating the agent.
    Evaluate,
    /// Saving the run.
    Save,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 9] = [
        Part::Act,
        Part::Step,
        Part::Add,
        Part::Sample,
        Part::Learn,
        Part::Priorities,
        Part::Weights,
        Part::Evaluate,
        Part::Save,
    ];

    /// Returns the name of the part.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Act => "act",
            Part::Step => "step",
            Part::Add => "add",
            Part::Sample => "sample",
            Part::Learn => "learn",
            Part::Priorities => "priorities",
            Part::Weights => "weights",
            Part::Evaluate => "evaluate",
            Part::Save => "save",
        }
    }
}

/// The time spent on each part, summed over all threads and processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times([u64; Part::ALL.len()]);

impl Times {
    /// Adds time to a part.
    #[inline]
    pub fn add(&mut self, part: Part, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(nanoseconds);
    }

    /// Returns the time spent on a part.
    #[must_use]
    pub fn of(&self, part: Part) -> Duration {
        Duration::from_nanos(self.0[part as usize])
    }

    /// Adds other times.
    pub fn merge(&mut self, others: &Times) {
        self.0.iter_mut().zip(others.0).for_each(|(sum, other)| *sum = sum.saturating_add(other));
    }

    /// Returns the name and the seconds of each part with a nonzero time.
    #[must_use]
    pub fn seconds(&self) -> BTreeMap<String, f64> {
        let taken = Part::ALL.into_iter().filter(|part| !self.of(*part).is_zero());
        taken.map(|part| (part.name().to_owned(), self.of(part).as_secs_f64())).collect()
    }

    pub(crate) fn visit(&mut self, state: &mut State<'_>) {
        self.0.iter_mut().for_each(|sum| state.field(sum));
    }
}

/// The times of operators that run in the driver's process. Clones share the times.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTimes(Arc<Mutex<Times>>);

impl SharedTimes {
    /// Adds time to a part.
    pub(crate) fn add(&self, part: Part, took: Duration) {
        self.0.lock().add(part, took);
    }

    /// Returns the times so far.
    pub(crate) fn so_far(&self) -> Times {
        *self.0.lock()
    }

    /// Returns the times since the last call.
    pub(crate) fn take(&self) -> Times {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Divides the time of a thread among parts without gaps: each clock reading ends one part and begins the
/// next.
#[derive(Debug)]
pub(crate) struct Lap(Instant);

impl Lap {
    pub(crate) fn begin() -> Lap {
        Lap(Instant::now())
    }

    /// Returns the time since the last reading.
    #[inline]
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.0, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state;

    #[test]
    fn parts_are_summed_and_round_trip() {
        let mut times = Times::default();
        times.add(Part::Learn, Duration::from_millis(1500));
        let shared = SharedTimes::default();
        shared.add(Part::Learn, Duration::from_millis(500));
        shared.add(Part::Save, Duration::from_millis(250));
        times.merge(&shared.take());
        assert_eq!(shared.so_far(), Times::default(), "times that were taken are gone");
        let expected = BTreeMap::from([("learn".to_owned(), 2.0), ("save".to_owned(), 0.25)]);
        assert_eq!(times.seconds(), expected);
        let (bytes, mut back) = (state::save(|state| times.visit(state)), Times::default());
        state::restore("times", &bytes, |state| back.visit(state)).unwrap();
        assert_eq!(back, times);
    }

    #[test]
    fn each_part_has_its_own_index() {
        for (place, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place, "{}", part.name());
        }
    }
}
