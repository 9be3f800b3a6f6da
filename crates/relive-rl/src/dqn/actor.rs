//! Acting by values.

use std::sync::Arc;

use relive_env::{TimeStep, View, ViewMut};
use relive_nn::{Params, Scratch, Stream, losses};

use super::QNetwork;
use crate::adders::Adder;
use crate::variables::Variables;
use crate::{Actor, Result, RlError};

/// Takes the action of the greatest value, or with probability ε any. Among actions of the same value each is as likely as the others.
pub struct DqnActor {
    network: QNetwork,
    variables: Variables,
    params: Arc<Params>,
    epsilon: f64,
    stream: Stream,
    adder: Option<Box<dyn Adder>>,
    /// Calls of `update` from one look for newer parameters to the next.
    update_period: u64,
    updates: u64,
    row: Vec<f32>,
    scratch: Scratch,
}

impl DqnActor {
    /// An actor that writes what it sees by `adder`; without one it only plays.
    #[must_use]
    pub fn new(
        network: QNetwork,
        variables: Variables,
        epsilon: f64,
        stream: Stream,
        adder: Option<Box<dyn Adder>>,
    ) -> DqnActor {
        let (params, row) = (variables.get(), vec![0.0; network.features.width()]);
        let scratch = Scratch::default();
        DqnActor {
            network,
            variables,
            params,
            epsilon,
            stream,
            adder,
            update_period: 1,
            updates: 0,
            row,
            scratch,
        }
    }

    /// Looks for newer parameters at every `period`th update only.
    #[must_use]
    pub fn update_period(mut self, period: u64) -> DqnActor {
        self.update_period = period.max(1);
        self
    }

    fn choose(&mut self, observation: View<'_>) -> usize {
        if self.epsilon > 0.0 && self.stream.uniform() < self.epsilon {
            return self.stream.below(self.network.num_actions());
        }
        self.network.features.write(observation, &mut self.row);
        let values = self.network.network.infer(&self.params, &self.row, &mut self.scratch);
        losses::greedy(values, &mut self.stream)
    }
}

impl Actor for DqnActor {
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

    fn update(&mut self, wait: bool) -> Result<()> {
        self.updates += 1;
        if wait || self.updates.is_multiple_of(self.update_period) {
            self.params = self.variables.get();
        }
        Ok(())
    }
}
