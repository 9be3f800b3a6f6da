//! An environment with its buffers, under test.

use crate::buffer::Action;
use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::policy::RandomPolicy;
use crate::timestep::{StepType, TimeStep};

use super::Violation;

/// A time step with its observation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObservedStep {
    pub(super) step: TimeStep,
    pub(super) observation: Buffer,
}

pub(super) struct Observer<E> {
    pub(super) environment: E,
    pub(super) observation: Buffer,
    actions: Buffer,
    policy: RandomPolicy,
}

impl<E: Environment> Observer<E> {
    pub(super) fn new(environment: E, seed: u64) -> Result<Self, Violation> {
        let spec = environment.spec();
        spec.validate().map_err(|error| Violation::new("specs are not empty", error))?;
        let buffer =
            |nest| Buffer::for_nest(nest, 1).map_err(|error| Violation::new("specs fit into memory", error));
        let (observation, actions) = (buffer(&spec.observations)?, buffer(&spec.actions)?);
        let policy = RandomPolicy::new(&spec.actions, seed);
        Ok(Self { environment, observation, actions, policy })
    }

    pub(super) fn reset(&mut self) -> Result<ObservedStep, Violation> {
        let step = self.environment.reset(self.observation.view_mut());
        let seen = self.observed(step)?;
        Violation::unless(seen.step.first(), "a reset returns FIRST", format_args!("{:?}", seen.step))?;
        Ok(seen)
    }

    /// Takes an action of the random policy.
    pub(super) fn step(&mut self) -> Result<ObservedStep, Violation> {
        self.policy
            .act(self.actions.view_mut())
            .map_err(|error| Violation::new("actions can be drawn", error))?;
        let step = self.environment.step(Action::Nest(self.actions.view()), self.observation.view_mut());
        self.observed(step)
    }

    /// Continues with the random policy of another observer.
    pub(super) fn follow(&mut self, other: &Self) {
        self.policy = other.policy.clone();
    }

    /// Fills the observation with one byte, to detect unwritten parts.
    pub(super) fn fill_with(&mut self, byte: u8) {
        for leaf in 0..self.observation.num_leaves() {
            if let Some(bytes) = self.observation.leaf_bytes_mut(leaf) {
                bytes.fill(byte);
            }
        }
    }

    fn observed(&self, step: Result<TimeStep, EnvError>) -> Result<ObservedStep, Violation> {
        let step = step.map_err(|error| Violation::new("actions that the spec allows do not fail", error))?;
        let spec = self.environment.spec();
        self.observation
            .check_row(0, &spec.observations)
            .map_err(|error| Violation::new("observations match their spec", error))?;
        let (low, high) = spec.rewards.bounds(0);
        let rewarded = step.step_type == StepType::First || (low..=high).contains(&step.reward);
        Violation::unless(rewarded, "rewards match their spec", step.reward)?;
        let (low, high) = spec.discounts.bounds(0);
        let discounted = (low.max(0.0)..=high.min(1.0)).contains(&step.discount);
        Violation::unless(discounted, "discounts match their spec, and are in 0..=1", step.discount)?;
        if step.first() {
            let neutral = step.reward == 0.0 && step.discount == 1.0;
            Violation::unless(neutral, "a FIRST has reward 0 and discount 1", format_args!("{step:?}"))?;
        }
        Ok(ObservedStep { step, observation: self.observation.clone() })
    }
}
