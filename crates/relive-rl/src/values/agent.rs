//! What such an agent must say, and what follows.

use std::sync::Arc;

use relive_env::EnvironmentSpec;
use relive_nn::losses::BatchLoss;
use relive_nn::{Key, Params};
use relive_table::TableConfig;

use super::experience::TABLE;
use super::{Experience, Transitions, ValueActor, ValueLearner, ValueSpace};
use crate::adders::{Adder, TransitionAdder};
use crate::dqn::{LeafShape, num_actions};
use crate::experiment::identity::settings_of;
use crate::features::Features;
use crate::variables::VariableSource;
use crate::{Actor, Agent, Learner, Pace, Place, Purpose, Result, RlError};

/// An agent that acts by the values of actions. Whatever says this is an [`Agent`].
pub trait ValueAgent: Sync {
    /// Its name, in files and messages.
    fn name(&self) -> &'static str;

    /// How it acts, and what its replay is.
    fn experience(&self) -> Experience;

    /// All its settings by name: a run is resumed only with the same. Those of its experience unless it says more.
    fn settings(&self) -> Vec<(String, String)> {
        settings_of(&self.experience())
    }

    /// Whether its own settings are within their ranges; those of its experience are checked anyway.
    ///
    /// # Errors
    /// The first that is not.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// Parameters to begin with.
    ///
    /// # Errors
    /// The environment is not one that the agent can act in.
    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params>;

    /// Where its values come from.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    fn values(&self, spec: &EnvironmentSpec) -> Result<Box<dyn ActionValues>>;

    /// How it learns, beginning with `params`.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    fn learning(&self, spec: &EnvironmentSpec, params: &Params) -> Result<Box<dyn ValueLearning>>;
}

/// The values of actions.
pub trait ActionValues: Send {
    /// One for each action, for an observation as a [row](Features) of numbers.
    fn values<'a>(&'a mut self, params: &'a Params, row: &[f32]) -> &'a [f32];
}

/// Learns from batches.
pub trait ValueLearning: Send {
    /// Improves parameters by a batch, whose numbers it may change. What it finds is the loss, and how wrong each transition was: its new
    /// priority. If one of these numbers is not finite, the run ends with an error.
    fn improve(&mut self, params: &mut Params, batch: &mut Transitions) -> BatchLoss;

    /// What its future depends on beside the parameters.
    fn save(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Goes on where one of the same settings was [saved](Self::save).
    ///
    /// # Errors
    /// [`State`](RlError::State) if the bytes are not of such a one.
    fn restore(&mut self, state: &[u8]) -> Result<()> {
        match state {
            [] => Ok(()),
            state => Err(RlError::state("an agent without one", format_args!("{} bytes", state.len()))),
        }
    }
}

impl<A: ValueAgent> Agent for A {
    fn name(&self) -> &'static str {
        ValueAgent::name(self)
    }

    fn validate(&self) -> Result<()> {
        self.experience().validate()?;
        ValueAgent::validate(self)
    }

    fn settings(&self) -> Vec<(String, String)> {
        ValueAgent::settings(self)
    }

    fn pace(&self) -> Pace {
        self.experience().pace()
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.experience().table()?])
    }

    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params> {
        ValueAgent::init(self, spec, key)
    }

    fn learner(&self, place: &Place<'_>, prefetch: usize) -> Result<Box<dyn Learner>> {
        let space = ValueSpace::of(place.spec)?;
        let params = ValueAgent::init(self, place.spec, place.key)?;
        let learning = self.learning(place.spec, &params)?;
        let (at, experience) = ((place.spec, space), self.experience());
        let learner = ValueLearner::new(learning, params, at, &experience, place.client, prefetch)?;
        Ok(Box::new(learner))
    }

    fn actor(
        &self,
        place: &Place<'_>,
        purpose: Purpose,
        variables: Arc<dyn VariableSource>,
    ) -> Result<Box<dyn Actor>> {
        let space = ValueSpace::of(place.spec)?;
        let Experience { epsilon, n_step, discount, .. } = self.experience();
        let (epsilon, adder) = match purpose {
            Purpose::Training => {
                let adder = TransitionAdder::new(place.client, TABLE, place.spec, n_step, discount)?;
                (epsilon, Some(Box::new(adder) as Box<dyn Adder>))
            }
            Purpose::Evaluation => (0.0, None),
        };
        let values = self.values(place.spec)?;
        let chance = (epsilon, place.key.stream());
        Ok(Box::new(ValueActor::new(values, space, variables, chance, adder)?))
    }
}

impl ValueSpace {
    /// For an environment with one discrete action.
    ///
    /// # Errors
    /// The environment has other actions, or observations that are not numbers.
    pub fn of(spec: &EnvironmentSpec) -> Result<ValueSpace> {
        let features = Features::of_leaves(&LeafShape::all_of(&spec.observations))?;
        Ok(ValueSpace { features, num_actions: num_actions(spec)? })
    }
}
