//! Checkpoints at regular intervals.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::pending::PendingCheckpoint;

/// The schedule of checkpoints, shared with the thread that waits for them. Dropping the schedule ends the thread.
#[derive(Debug)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    every: Duration,
    state: Mutex<State>,
    stopping: Condvar,
}

#[derive(Debug)]
struct State {
    /// `None` if the time is outside the range of the system's clock.
    due: Option<Instant>,
    stopped: bool,
}

impl Clock {
    pub(super) fn new(every: Duration) -> Self {
        let state = Mutex::new(State { due: Instant::now().checked_add(every), stopped: false });
        Self { shared: Arc::new(Shared { every, state, stopping: Condvar::new() }) }
    }

    /// Starts the thread, which calls `begin` for each scheduled checkpoint and waits for the result. The thread ends
    /// when `begin` returns `None`.
    pub(crate) fn start(
        &self,
        begin: impl Fn() -> Option<Option<PendingCheckpoint>> + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || while shared.wait() && shared.begin_if_due(&begin) {};
        std::thread::Builder::new().name("relive-clock".to_owned()).spawn(run).map(drop)
    }

    pub(crate) fn stop(&self) {
        self.shared.state.lock().stopped = true;
        self.shared.stopping.notify_all();
    }

    /// The time until the next scheduled checkpoint.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        let state = self.shared.state.lock();
        state.due.filter(|_| !state.stopped).map(|due| due.saturating_duration_since(now))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Waits until a checkpoint is due. Returns false if no more are scheduled.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.stopped {
            match state.due {
                Some(due) if due <= Instant::now() => return true,
                Some(due) => drop(self.stopping.wait_until(&mut state, due)),
                None => self.stopping.wait(&mut state),
            }
        }
        false
    }

    /// Starts a checkpoint and schedules the next one. Returns false if the engine is gone.
    fn begin_if_due(&self, begin: impl Fn() -> Option<Option<PendingCheckpoint>>) -> bool {
        let Some(pending) = begin() else { return false };
        // A failure needs no handling here: the checkpoint's thread has logged it, and the status contains it.
        let _told = pending.map(PendingCheckpoint::wait);
        let mut state = self.state.lock();
        state.due = state.due.and_then(|due| next_due(due, self.every, Instant::now()));
        true
    }
}

/// Returns the first of `due`, `due + every`, … that is after `now` and after `due`.
fn next_due(due: Instant, every: Duration, now: Instant) -> Option<Instant> {
    let late = now.saturating_duration_since(due);
    let missed = late.as_nanos() / every.as_nanos().max(1);
    let missed = u32::try_from(missed).unwrap_or(u32::MAX - 1);
    due.checked_add(every.checked_mul(missed + 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_periodic_checkpoints_are_skipped() {
        let (start, every) = (Instant::now(), Duration::from_secs(10));
        for (now, next) in [(0, 10), (3, 10), (9, 10), (10, 20), (11, 20), (47, 50)] {
            let next = start + Duration::from_secs(next);
            assert_eq!(next_due(start, every, start + Duration::from_secs(now)), Some(next), "{now}");
        }
        assert_eq!(next_due(start, Duration::MAX, start), None);
    }
}
