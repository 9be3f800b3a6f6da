//! Acts with the recurrent network.

use relive_env::ArraySpec;
use relive_nn::{Key, Params, losses};
use relive_rl::{ActStep, Policy, PolicyContext, Purpose, Result, Saveable, Weights};
use relive_tensor::{DType, Nest};

use super::R2d2Config;
use super::network::QMemory;
use crate::recurrent_states::RecurrentStates;
use crate::saved::{self, Saved};
use crate::{EpsilonGreedy, weights};

/// Chooses actions by their values. It writes its states for the learner; an evaluation writes the `values` instead, as
/// returns rather than in the network's own scale.
#[derive(Debug)]
pub(super) struct R2d2Policy {
    network: QMemory,
    params: Params,
    memory: RecurrentStates,
    choice: EpsilonGreedy,
    is_evaluation: bool,
    rows: Vec<f32>,
}

impl R2d2Policy {
    pub(super) fn new(config: &R2d2Config, context: &PolicyContext<'_>) -> Result<R2d2Policy> {
        let (network, params) = QMemory::new(config, context.spec, Key::from_seed(0))?;
        Ok(R2d2Policy {
            memory: RecurrentStates::new(&network.network, context.keys.len()),
            network,
            params,
            choice: EpsilonGreedy::spread(config.epsilon, config.epsilon_alpha, context)?,
            is_evaluation: context.purpose == Purpose::Evaluation,
            rows: Vec::new(),
        })
    }
}

impl Policy for R2d2Policy {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        let Self { network, params, memory, choice, is_evaluation, rows } = self;
        memory.forget(step.starts);
        if !*is_evaluation {
            memory.write_extras(step.extras, 0)?;
        }
        let seen = network.torso.read(step.observations, rows);
        let values = memory.act(&network.network, params, seen);
        if *is_evaluation {
            let shown = step.extras.leaf_mut::<f32>(0)?.iter_mut().zip(values);
            shown.for_each(|(shown, value)| *shown = losses::untransformed_value(*value));
        }
        choice.act(values, step.actions)
    }

    fn load(&mut self, newer: &Weights) -> Result<()> {
        weights::load(&mut self.params, newer)
    }

    fn extras(&self) -> Nest<ArraySpec> {
        if !self.is_evaluation {
            return Nest::dict(RecurrentStates::extras(&self.network.network));
        }
        let actions = u32::try_from(self.choice.num_actions()).unwrap_or(u32::MAX);
        Nest::dict([("values", Nest::Leaf(ArraySpec::new("values", DType::Float32, [actions])))])
    }
}

impl R2d2Policy {
    fn parts(&mut self) -> Vec<Saved<'_>> {
        let mut parts = self.choice.parts();
        parts.push(Saved::Fields(&mut self.memory));
        parts
    }
}

/// The name that error messages use for the owner of the saved state.
const WHAT: &str = "a policy of R2D2";

impl Saveable for R2d2Policy {
    fn save(&mut self) -> Vec<u8> {
        saved::save(&mut self.parts())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        saved::restore(WHAT, &mut self.parts(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use relive_env::{Buffer, EnvironmentSpec};

    use super::*;

    #[test]
    fn the_values_of_an_evaluation_are_returns() {
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [2]), ArraySpec::discrete("", 3));
        let (config, key) = (R2d2Config::default(), Key::from_seed(1));
        let context = PolicyContext::alone(&spec, Purpose::Evaluation, std::slice::from_ref(&key));
        let mut policy = R2d2Policy::new(&config, &context).unwrap();
        let buffer = |nest: &Nest<ArraySpec>| Buffer::for_nest(nest, 1).unwrap();
        let (mut observations, mut actions) = (buffer(&spec.observations), buffer(&spec.actions));
        let mut extras = buffer(&policy.extras());
        observations.leaf_mut::<f32>(0).unwrap().copy_from_slice(&[40.0, -30.0]);
        let mut memory = RecurrentStates::new(&policy.network.network, 1);
        let mut rows = Vec::new();
        let seen = policy.network.torso.read(&observations, &mut rows);
        let rescaled = memory.act(&policy.network.network, &policy.params, seen).to_vec();
        let (observations, actions, extras) = (&observations, &mut actions, &mut extras);
        policy
            .act(&mut ActStep { observations, starts: &[true], actions, extras, environments: None })
            .unwrap();
        for (shown, value) in extras.leaf::<f32>(0).unwrap().iter().zip(&rescaled) {
            let again = losses::rescale(*shown, 1e-3);
            assert!(shown.abs() > 1.5 * value.abs() && (again - value).abs() < 1e-5, "{shown} {value}");
        }
    }
}
