//! When the checkpoints of a run are written.

use super::pace::is_due;
use super::session::Session;

/// The maximum number of intervals for which a checkpoint waits for the ends of episodes.
const MAX_INTERVALS: u64 = 10;

/// Decides when a checkpoint that is due is written.
///
/// Environments that cannot save their state begin new episodes after each checkpoint. If no episode could end between
/// two checkpoints, the agent would never see how its episodes go on. Such a run therefore waits until as many episodes
/// have ended since the last checkpoint as there are environments.
#[derive(Debug)]
pub(super) struct CheckpointSchedule {
    every: u64,
    /// The step at which a checkpoint became due that is not written yet.
    due_since: Option<u64>,
    /// The number of episodes at the last checkpoint.
    episodes: u64,
    has_warned: bool,
}

impl CheckpointSchedule {
    pub(super) fn begin(every: u64, session: &Session) -> CheckpointSchedule {
        CheckpointSchedule { every, due_since: None, episodes: session.episodes(), has_warned: false }
    }

    /// Returns whether a checkpoint is written now that the number of steps has advanced from `before` to `now`.
    pub(super) fn is_now(&mut self, session: &Session, [before, now]: [u64; 2]) -> bool {
        let since = match self.due_since {
            None if !is_due(self.every, before, now) => return false,
            None => *self.due_since.insert(now),
            Some(since) => since,
        };
        let ended = session.episodes() - self.episodes;
        let waits = session.begins_anew() && ended < session.environments();
        if waits && now - since < (MAX_INTERVALS - 1).saturating_mul(self.every) {
            return false;
        }
        if waits && !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "only {ended} episodes have ended since the last checkpoint, and the others begin anew after this one, \
                 because the environment cannot save its state: write checkpoints less often, limit the episodes' \
                 length, or use actors, whose episodes continue"
            );
        }
        (self.due_since, self.episodes) = (None, session.episodes());
        true
    }
}
