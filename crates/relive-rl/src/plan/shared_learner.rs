//! The learner of a run.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::RunHooks;
use crate::contracts::WeightStore;
use crate::remote::Team;
use crate::times::{Lap, SharedTimes};
use crate::{Learner, Learnt, Part, Result};

/// The learner of a run, shared by the operators of its plan. It publishes its weights. Clones are cheap.
pub struct SharedLearner<L> {
    learner: Arc<Mutex<L>>,
    weights: WeightStore,
    times: SharedTimes,
    hooks: RunHooks,
    /// The learners of the run, if there are several.
    team: Option<Arc<Team>>,
}

impl<L> Clone for SharedLearner<L> {
    fn clone(&self) -> Self {
        Self {
            learner: Arc::clone(&self.learner),
            weights: self.weights.clone(),
            times: self.times.clone(),
            hooks: self.hooks.clone(),
            team: self.team.clone(),
        }
    }
}

impl<L> fmt::Debug for SharedLearner<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLearner").field("learners", &self.learners()).finish_non_exhaustive()
    }
}

impl<L> SharedLearner<L> {
    /// Returns the number of learners of the run.
    pub(super) fn learners(&self) -> u32 {
        self.team.as_ref().map_or(1, |team| team.peers.count())
    }

    /// Returns the learners of the run, if this learner is the first of several.
    pub(super) fn led_team(&self) -> Option<&Team> {
        self.team.as_deref().filter(|team| team.peers.rank() == 0)
    }

    /// Returns the learners of the run, if this learner is not learner 0.
    pub(super) fn followed(&self) -> Option<Arc<Team>> {
        self.team.clone().filter(|team| team.peers.rank() > 0)
    }
}

impl<L: Learner> SharedLearner<L> {
    pub(super) fn new(
        learner: L,
        weights: WeightStore,
        (times, hooks): (SharedTimes, RunHooks),
        team: Option<Arc<Team>>,
    ) -> Result<Self> {
        weights.publish(learner.weights()?);
        Ok(Self { learner: Arc::new(Mutex::new(learner)), weights, times, hooks, team })
    }

    /// Learns from a batch and publishes the new weights.
    ///
    /// # Errors
    /// The errors of [`Learner::learn`]. In these cases, the weights are not published.
    pub fn learn(&self, batch: L::Batch) -> Result<Learnt> {
        let learnt = self.with(|learner| learner.learn(batch))?;
        self.team.iter().for_each(|team| team.note(learnt.steps));
        Ok(learnt)
    }

    /// Changes the learner and publishes the new weights.
    ///
    /// # Errors
    /// The errors of `change`. In these cases, the weights are not published.
    pub fn with<R>(&self, change: impl FnOnce(&mut L) -> Result<R>) -> Result<R> {
        let mut learner = self.learner.lock();
        let mut lap = Lap::begin();
        let result = change(&mut learner)?;
        self.times.add(Part::Learn, lap.lap());
        self.weights.publish(learner.weights()?);
        self.times.add(Part::Weights, lap.lap());
        Ok(result)
    }

    pub(super) fn hooks(&self) -> &RunHooks {
        &self.hooks
    }

    pub(super) fn save(&self) -> Vec<u8> {
        self.learner.lock().save()
    }
}
