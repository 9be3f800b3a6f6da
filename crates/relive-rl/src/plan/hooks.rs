//! Hooks on the rollouts, batches and evaluations of a run.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_client::SampleBatch;
use relive_env::EnvironmentSpec;

use crate::acting::Episode;
use crate::remote::Layouts;
use crate::{Learnt, Result, RlError, Rollout, Weights};

/// The data from which a learner is about to learn.
#[derive(Debug, Clone, Copy)]
pub enum LearnerInput<'a> {
    /// A rollout from workers.
    Rollout(&'a Rollout),
    /// A batch from each of its tables.
    Samples(&'a [SampleBatch]),
}

/// Called with the learner's report on a batch.
pub type AfterBatch = Box<dyn FnOnce(&Learnt) -> Result<()>>;

/// An evaluation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Evaluated<'a> {
    /// Its episodes.
    pub episodes: &'a [Episode],
    /// The environment steps of the run so far.
    pub env_steps: u64,
    /// The learner steps of the run so far.
    pub learner_steps: u64,
    /// The weights that were evaluated; see [`SavedPolicy::with_weights`](crate::SavedPolicy::with_weights).
    pub weights: &'a Weights,
    /// The spec of the environments.
    pub spec: &'a EnvironmentSpec,
}

type OnRollout = Box<dyn FnMut(&Rollout, &Layouts) -> Result<()> + Send>;
type OnBatch = Box<dyn FnMut(LearnerInput<'_>, &Layouts) -> Result<AfterBatch> + Send>;
type OnEvaluation = Box<dyn FnMut(Evaluated<'_>) -> Result<ControlFlow<()>> + Send>;

/// Functions that observe the rollouts, batches and evaluations of a run. An error of a function ends the run. Clones
/// share the functions. Without hooks, the only cost is a branch per rollout and batch.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use relive_rl::run::{Hooks, RunOptions};
///
/// let steps = Arc::new(AtomicUsize::new(0));
/// let counter = Arc::clone(&steps);
/// let hooks = Hooks::default().on_rollout(move |rollout, _| {
///     counter.fetch_add(rollout.learnable().count(), Ordering::Relaxed);
///     Ok(())
/// });
/// let options = RunOptions { environment: "catch/0".to_owned(), env_steps: 100, hooks, ..RunOptions::default() };
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    on_rollout: Option<Arc<Mutex<OnRollout>>>,
    on_batch: Option<Arc<Mutex<OnBatch>>>,
    on_evaluation: Option<Arc<Mutex<OnEvaluation>>>,
}

impl Hooks {
    /// Calls `look` with each rollout of each worker and the layout of its rows, before the rollout is stored or
    /// learned from. The calls are never concurrent. A run with processes as workers rejects this hook, since the
    /// workers' steps do not pass through this process.
    #[must_use]
    pub fn on_rollout(self, look: impl FnMut(&Rollout, &Layouts) -> Result<()> + Send + 'static) -> Hooks {
        Hooks { on_rollout: Some(Arc::new(Mutex::new(Box::new(look)))), ..self }
    }

    /// Calls `look` with each batch before it is passed to the learner, and the returned function with the learner's
    /// report. A learner that receives gradients instead of experience, as in A3C, causes an error at its first batch.
    #[must_use]
    pub fn on_batch(
        self,
        look: impl FnMut(LearnerInput<'_>, &Layouts) -> Result<AfterBatch> + Send + 'static,
    ) -> Hooks {
        Hooks { on_batch: Some(Arc::new(Mutex::new(Box::new(look)))), ..self }
    }

    /// Calls `look` after each evaluation; see [`RunOptions::evaluation`](crate::run::RunOptions::evaluation).
    /// [`ControlFlow::Break`] ends the run early, as if it had completed its steps: for example, because it has reached a
    /// return.
    #[must_use]
    pub fn on_evaluation(
        self,
        look: impl FnMut(Evaluated<'_>) -> Result<ControlFlow<()>> + Send + 'static,
    ) -> Hooks {
        Hooks { on_evaluation: Some(Arc::new(Mutex::new(Box::new(look)))), ..self }
    }

    /// Returns whether there is a hook on rollouts.
    pub(crate) fn sees_rollouts(&self) -> bool {
        self.on_rollout.is_some()
    }

    /// Returns the hooks for a run with these layouts.
    pub(crate) fn of_run(&self, layouts: impl FnOnce() -> Result<Layouts>) -> Result<RunHooks> {
        let looks = self.on_rollout.is_some() || self.on_batch.is_some();
        Ok(RunHooks { hooks: self.clone(), layouts: looks.then(layouts).transpose()?.map(Arc::new) })
    }
}

/// The hooks of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunHooks {
    hooks: Hooks,
    /// The layouts of the run's rows; `None` without hooks.
    layouts: Option<Arc<Layouts>>,
}

impl RunHooks {
    #[inline]
    pub(crate) fn rollout(&self, rollout: &Rollout) -> Result<()> {
        let looking = self.hooks.on_rollout.as_ref().zip(self.layouts.as_ref());
        looking.map_or(Ok(()), |(look, layouts)| look.lock()(rollout, layouts))
    }

    #[inline]
    pub(crate) fn batch<'a>(
        &self,
        seen: impl FnOnce() -> Option<LearnerInput<'a>>,
    ) -> Result<Option<AfterBatch>> {
        let Some((look, layouts)) = self.hooks.on_batch.as_ref().zip(self.layouts.as_ref()) else {
            return Ok(None);
        };
        let nothing = || {
            let expected =
                "none for an agent whose workers learn, such as A3C: its learner gets gradients, not batches";
            RlError::setting("on_batch", "a function", expected)
        };
        look.lock()(seen().ok_or_else(nothing)?, layouts).map(Some)
    }

    /// Returns whether the run should end.
    pub(crate) fn evaluation(&self, ended: Evaluated<'_>) -> Result<ControlFlow<()>> {
        let look = self.hooks.on_evaluation.as_ref();
        look.map_or(Ok(ControlFlow::Continue(())), |look| look.lock()(ended))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rollouts, batches) = (self.on_rollout.is_some(), self.on_batch.is_some());
        let evaluations = self.on_evaluation.is_some();
        f.debug_struct("Hooks")
            .field("on_rollout", &rollouts)
            .field("on_batch", &batches)
            .field("on_evaluation", &evaluations)
            .finish()
    }
}
