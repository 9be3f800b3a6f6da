//! Learning from transitions.

use relive_rl::learners::Peers;
use relive_rl::plan::{Crew, SampleBatch, Transitions};
use relive_rl::{Learner, Learnt, Result, RlError, Saveable, Weights};

use super::{Normalizer, Spaces};
use crate::saved::{self, Saved};
use crate::weights;

/// The logged metrics of a step, by name.
pub(crate) type StepMetrics = Vec<(&'static str, f32)>;

/// Takes a gradient step from a batch. This is the part of a learner that differs among agents.
pub(crate) trait Improve: Send {
    /// The name that error messages use for the owner of the saved state.
    const WHAT: &'static str;

    /// Takes one gradient step. The transitions' actions are scaled to −1..1.
    fn improve(&mut self, batch: &Transitions) -> Result<StepMetrics>;

    /// From now on, learns together with other learners, using the mean of all gradients.
    fn share(&mut self, peers: &Peers);

    /// Returns the parameters with which policies act.
    fn acting(&self) -> &relive_nn::Params;

    /// Returns the parameters of the policy that gradient steps change. Policies may act with a copy, which changes less
    /// often.
    fn learned(&self) -> &relive_nn::Params {
        self.acting()
    }

    /// Returns the parts that are saved.
    fn parts(&mut self) -> Vec<Saved<'_>>;
}

/// Learns from batches of transitions, one gradient step per batch.
#[derive(Debug)]
pub(crate) struct TransitionLearner<I> {
    spaces: Spaces,
    batch: Transitions,
    normalizer: Option<Normalizer>,
    improve: I,
    peers: Peers,
}

impl<I: Improve> TransitionLearner<I> {
    /// Creates a learner with the agent's discount, which normalizes observations if the settings request it.
    ///
    /// # Errors
    /// The environment is unsuitable for this kind of agent.
    pub(crate) fn new(
        crew: &Crew,
        discount: f32,
        normalizes: bool,
        improve: I,
    ) -> Result<TransitionLearner<I>> {
        let (spaces, batch) = (Spaces::of(crew.spec())?, Transitions::new(crew.spec(), discount)?);
        let normalizer = normalizes.then(|| Normalizer::new(spaces.width()));
        Ok(TransitionLearner { spaces, batch, normalizer, improve, peers: Peers::alone() })
    }

    fn parts(&mut self) -> Vec<Saved<'_>> {
        let mut parts = self.improve.parts();
        parts.extend(self.normalizer.as_mut().map(|normalizer| Saved::Fields(normalizer)));
        parts
    }
}

impl<I: Improve> Learner for TransitionLearner<I> {
    type Batch = Vec<SampleBatch>;

    fn learn(&mut self, batches: Vec<SampleBatch>) -> Result<Learnt> {
        let Self { spaces, batch: transitions, normalizer, improve, peers } = self;
        transitions.read(&batches)?;
        drop(batches);
        spaces.scale(&mut transitions.actions);
        if let Some(normalizer) = normalizer {
            normalizer.add(&transitions.observations, peers)?;
            normalizer.apply(&mut transitions.observations);
            normalizer.apply(&mut transitions.next_observations);
        }
        let found = improve.improve(transitions)?;
        Ok(learnt(transitions.rewards.len(), found))
    }

    fn weights(&self) -> Result<Weights> {
        let weights = weights::published(self.improve.acting())?;
        match &self.normalizer {
            // The statistics change with each batch, even if the weights do not.
            Some(normalizer) => normalizer.published(&weights, self.improve.learned().version()),
            None => Ok(weights),
        }
    }

    fn share(&mut self, peers: Peers) -> Result<()> {
        self.improve.share(&peers);
        self.peers = peers;
        Ok(())
    }
}

impl<I: Improve> Saveable for TransitionLearner<I> {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(I::WHAT, &mut self.parts(), bytes)
    }
}

/// Returns the report on a gradient step over `samples` samples. The report contains no priorities.
pub(crate) fn learnt(samples: usize, found: StepMetrics) -> Learnt {
    let metrics = found.into_iter().map(|(name, number)| (name, f64::from(number))).collect();
    Learnt { steps: 1, samples: samples as u64, metrics, priorities: Vec::new() }
}

/// Returns the metrics if they and the norms of all gradients are finite. Otherwise, the parameters are no longer
/// finite, although the next loss may still be finite.
///
/// # Errors
/// [`Diverged`](RlError::Diverged).
pub(crate) fn checked(step: u64, norms: &[f32], found: StepMetrics) -> Result<StepMetrics> {
    if norms.iter().chain(found.iter().map(|(_, number)| number)).all(|number| number.is_finite()) {
        return Ok(found);
    }
    let loss = found.iter().filter(|(name, _)| name.ends_with("loss")).map(|(_, loss)| loss).sum();
    Err(RlError::Diverged { step, loss })
}
