//! How a thread leaves a run with several, also by a panic: nobody waits for it any more.

use relive_engine::Engine;

use super::progress::Progress;

/// What a thread of a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Learner,
    Actor,
    Evaluator,
    /// Listens to what the others tell.
    Listener,
}

impl Role {
    /// Whoever it is, in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Learner => "the learner",
            Role::Actor => "an actor",
            Role::Evaluator => "the evaluator",
            Role::Listener => "the listener",
        }
    }
}

/// Held by a thread for as long as it works. Dropped, it ends the waits of the others for what does not come any more; after a panic, their work,
/// too.
pub(super) struct Leaving<'a> {
    role: Role,
    progress: &'a Progress,
    engine: &'a Engine,
}

impl<'a> Leaving<'a> {
    pub(super) fn new(role: Role, progress: &'a Progress, engine: &'a Engine) -> Leaving<'a> {
        Leaving { role, progress, engine }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let has_panicked = std::thread::panicking();
        if has_panicked {
            // Before the tables are closed: whoever waits at them then knows that this is no failure of its own.
            self.progress.end();
        }
        let is_missed = match self.role {
            // Actors may be waiting for it to sample.
            Role::Learner => true,
            // The learner may be waiting for experience.
            Role::Actor => self.progress.actor_is_done(),
            Role::Evaluator | Role::Listener => false,
        };
        if is_missed || has_panicked {
            self.engine.close();
        }
    }
}
