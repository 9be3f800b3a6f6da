//! Acting by values.

use std::sync::Arc;

use relive_env::{TimeStep, View, ViewMut};
use relive_nn::{Params, Stream, losses};

use super::ActionValues;
use crate::adders::Adder;
use crate::features::Features;
use crate::state;
use crate::variables::VariableSource;
use crate::{Actor, Result, RlError, Saveable};

/// Takes the action of the greatest value, or with probability ε any. Among actions of the same value each is as likely as the others.
pub struct ValueActor {
    values: Box<dyn ActionValues>,
    features: Features,
    num_actions: usize,
    variables: Arc<dyn VariableSource>,
    params: Arc<Params>,
    epsilon: f64,
    stream: Stream,
    adder: Option<Box<dyn Adder>>,
    row: Vec<f32>,
}

/// What an actor of values sees and does.
#[derive(Debug, Clone)]
pub struct ValueSpace {
    /// Its observations, as rows.
    pub features: Features,
    /// How many actions there are.
    pub num_actions: usize,
}

impl ValueActor {
    /// An actor that explores with probability `epsilon`, and writes what it sees by `adder`; without one it only plays.
    ///
    /// # Errors
    /// There are no parameters to be had.
    pub fn new(
        values: Box<dyn ActionValues>,
        space: ValueSpace,
        variables: Arc<dyn VariableSource>,
        (epsilon, stream): (f64, Stream),
        adder: Option<Box<dyn Adder>>,
    ) -> Result<ValueActor> {
        let params = variables.newest()?;
        let ValueSpace { features, num_actions } = space;
        let row = vec![0.0; features.width()];
        Ok(ValueActor { values, features, num_actions, variables, params, epsilon, stream, adder, row })
    }

    fn choose(&mut self, observation: View<'_>) -> usize {
        if self.epsilon > 0.0 && self.stream.uniform() < self.epsilon {
            return self.stream.below(self.num_actions);
        }
        self.features.write(observation, &mut self.row);
        losses::greedy(self.values.values(&self.params, &self.row), &mut self.stream)
    }
}

impl Actor for ValueActor {
    fn select_action(&mut self, observation: View<'_>, mut action: ViewMut<'_>) -> Result<()> {
        let chosen = self.choose(observation);
        if let Ok([place]) = action.leaf_mut::<i32>(0) {
            *place = i32::try_from(chosen).unwrap_or(i32::MAX);
        } else if let [place] = action.leaf_mut::<i64>(0)? {
            *place = i64::try_from(chosen).unwrap_or(i64::MAX);
        } else {
            return Err(RlError::Unsuited {
                expected: "one discrete action",
                got: "another buffer".to_owned(),
            });
        }
        Ok(())
    }

    fn observe_first(&mut self, observation: View<'_>) -> Result<()> {
        self.adder.as_mut().map_or(Ok(()), |adder| adder.add_first(observation))
    }

    fn observe(&mut self, action: View<'_>, step: TimeStep, observation: View<'_>) -> Result<()> {
        self.adder.as_mut().map_or(Ok(()), |adder| adder.add(action, step, observation))
    }

    fn update(&mut self, _wait: bool) -> Result<()> {
        self.params = self.variables.newest()?;
        Ok(())
    }
}

impl Saveable for ValueActor {
    fn save(&mut self) -> Vec<u8> {
        let mut stream = self.stream.to_bytes();
        state::save(|state| state.bytes(&mut stream))
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        const WHAT: &str = "an actor";
        let mut stream = Vec::new();
        state::restore(WHAT, bytes, |state| state.bytes(&mut stream))?;
        self.stream = Stream::from_bytes(&stream).map_err(|error| RlError::state(WHAT, error))?;
        Ok(())
    }
}
