//! What the threads of a run share.

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Stop;
use super::options::RunOptions;
use super::report::EpisodeReport;
use super::tally::Tally;
use crate::Episode;

/// How far a run is, and whether it is over.
pub(super) struct Progress {
    tally: Mutex<Tally>,
    changed: Condvar,
    state: Mutex<State>,
    env_steps: u64,
    stop: Stop,
}

struct State {
    /// Somebody has failed, or was told to stop.
    is_over: bool,
    actors: usize,
}

impl Progress {
    pub(super) fn new(options: &RunOptions) -> Progress {
        Progress {
            tally: Mutex::new(Tally::new()),
            changed: Condvar::new(),
            state: Mutex::new(State { is_over: false, actors: options.actors }),
            env_steps: options.env_steps,
            stop: options.stop.clone(),
        }
    }

    /// The counters. Whoever holds them must ask nothing else of the progress.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(super) fn note(&self, actor: usize, episode: &Episode) -> EpisodeReport {
        let report = self.tally().note(actor, episode);
        self.changed.notify_all();
        report
    }

    /// The learner has made a step from so many samples; the steps that it has made.
    pub(super) fn note_learnt(&self, samples: u64) -> u64 {
        let mut tally = self.tally();
        tally.note_learnt(1, samples);
        tally.learner_steps()
    }

    /// Whether there were steps enough, somebody has failed, or the run was told to stop.
    pub(super) fn is_over(&self) -> bool {
        // One lock after the other: `wait_for` takes the second inside the first.
        let has_ended = self.state.lock().is_over;
        has_ended || self.stop.is_stopped() || self.tally().env_steps() >= self.env_steps
    }

    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        // Whoever looks at the steps looks at this before: it must not fall asleep in between.
        drop(self.tally());
        self.changed.notify_all();
    }

    /// An actor plays no more. Whether it was the last.
    pub(super) fn actor_is_done(&self) -> bool {
        let mut state = self.state.lock();
        state.actors = state.actors.saturating_sub(1);
        let was_last = state.actors == 0;
        drop(state);
        // A run that is told to stop wakes nobody: whoever waits for steps sees it now, since none come any more.
        drop(self.tally());
        self.changed.notify_all();
        was_last
    }

    /// Waits until there are as many steps, or the run is over; whether it is.
    pub(super) fn wait_for(&self, env_steps: u64) -> bool {
        let mut tally = self.tally.lock();
        loop {
            let steps = tally.env_steps();
            if self.stop.is_stopped() || self.state.lock().is_over || steps >= self.env_steps {
                return true;
            }
            if steps >= env_steps {
                return false;
            }
            self.changed.wait(&mut tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;

    use super::*;

    #[test]
    fn whoever_waits_for_steps_sees_that_the_last_actor_was_told_to_stop() {
        let options = RunOptions { actors: 1, env_steps: 100, ..RunOptions::default() };
        let progress = Progress::new(&options);
        scope(|threads| {
            let waiting = threads.spawn(|| progress.wait_for(50));
            // It sleeps, or will look at what comes: either way it must end.
            std::thread::yield_now();
            options.stop.stop();
            assert!(progress.actor_is_done());
            assert!(waiting.join().unwrap());
        });
    }
}
