//! Functions that see the steps and batches of a run.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use relive_client::SampleBatch;

use crate::remote::Layouts;
use crate::{Learnt, Result, RlError, Rollout};

/// What a learner is about to learn from.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// What workers have just done.
    Rollout(&'a Rollout),
    /// A batch of each of its tables.
    Samples(&'a [SampleBatch]),
}

/// Is told what was learned from a batch.
pub type AfterBatch = Box<dyn FnOnce(&Learnt) -> Result<()>>;

type OnRollout = Box<dyn FnMut(&Rollout, &Layouts) -> Result<()> + Send>;
type OnBatch = Box<dyn FnMut(Seen<'_>, &Layouts) -> Result<AfterBatch> + Send>;

/// Functions that see the steps and batches of a run; an error of one of them ends the run with it. Clones share
/// them. A run without them pays a branch for each rollout and each batch.
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
}

impl Hooks {
    /// `look` is called with each rollout of each worker and with what its rows look like, before it is stored or
    /// learned from; with several threads by one of them at a time. A run whose workers are processes is refused,
    /// since their steps do not come here.
    #[must_use]
    pub fn on_rollout(self, look: impl FnMut(&Rollout, &Layouts) -> Result<()> + Send + 'static) -> Hooks {
        Hooks { on_rollout: Some(Arc::new(Mutex::new(Box::new(look)))), ..self }
    }

    /// `look` is called with each batch before it is learned from, and what it gives with what was learned. A learner
    /// that gets gradients instead of experience, as that of A3C, is an error at its first one.
    #[must_use]
    pub fn on_batch(
        self,
        look: impl FnMut(Seen<'_>, &Layouts) -> Result<AfterBatch> + Send + 'static,
    ) -> Hooks {
        Hooks { on_batch: Some(Arc::new(Mutex::new(Box::new(look)))), ..self }
    }

    /// Whether there is one for rollouts.
    pub(crate) fn sees_rollouts(&self) -> bool {
        self.on_rollout.is_some()
    }

    /// The same for a run whose rows look so.
    pub(crate) fn of_run(&self, layouts: impl FnOnce() -> Result<Layouts>) -> Result<RunHooks> {
        let looks = self.on_rollout.is_some() || self.on_batch.is_some();
        Ok(RunHooks { hooks: self.clone(), layouts: looks.then(layouts).transpose()?.map(Arc::new) })
    }
}

/// The hooks of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunHooks {
    hooks: Hooks,
    /// What rows of the run look like; none if there are no hooks.
    layouts: Option<Arc<Layouts>>,
}

impl RunHooks {
    #[inline]
    pub(crate) fn rollout(&self, rollout: &Rollout) -> Result<()> {
        let looking = self.hooks.on_rollout.as_ref().zip(self.layouts.as_ref());
        looking.map_or(Ok(()), |(look, layouts)| look.lock()(rollout, layouts))
    }

    #[inline]
    pub(crate) fn batch<'a>(&self, seen: impl FnOnce() -> Option<Seen<'a>>) -> Result<Option<AfterBatch>> {
        let Some((look, layouts)) = self.hooks.on_batch.as_ref().zip(self.layouts.as_ref()) else {
            return Ok(None);
        };
        let nothing = || {
            let expected = "none for an agent whose workers learn, as those of A3C do: its learner gets gradients, not batches";
            RlError::setting("on_batch", "a function", expected)
        };
        look.lock()(seen().ok_or_else(nothing)?, layouts).map(Some)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rollouts, batches) = (self.on_rollout.is_some(), self.on_batch.is_some());
        f.debug_struct("Hooks").field("on_rollout", &rollouts).field("on_batch", &batches).finish()
    }
}
