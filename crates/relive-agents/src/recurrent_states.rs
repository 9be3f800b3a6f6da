//! The recurrent state of each row of a policy.

use relive_env::{ArraySpec, Buffer, State};
use relive_nn::{Inputs, LstmState, Params, RecurrentNetwork, RecurrentScratch, Steps};
use relive_rl::Result;
use relive_tensor::{DType, Nest};

use crate::saved::Visited;

/// The states of a recurrent network, one for each row, so that a row does not depend on the other rows.
#[derive(Debug)]
pub(crate) struct RecurrentStates {
    states: Vec<LstmState>,
    outputs: Vec<f32>,
    scratch: RecurrentScratch,
}

/// The names of the states among a policy's extras, in the order in which they appear there.
const NAMES: [&str; 2] = ["cell", "hidden"];

impl RecurrentStates {
    /// Creates rows with an empty memory.
    pub(crate) fn new(network: &RecurrentNetwork, rows: usize) -> RecurrentStates {
        let states = vec![network.zero_state(1); rows];
        RecurrentStates { states, outputs: Vec::new(), scratch: RecurrentScratch::default() }
    }

    /// Returns the extras that contain a state.
    pub(crate) fn extras(network: &RecurrentNetwork) -> [(&'static str, Nest<ArraySpec>); 2] {
        let units = u32::try_from(network.units()).unwrap_or(u32::MAX);
        NAMES.map(|name| (name, Nest::Leaf(ArraySpec::new(name, DType::Float32, [units]))))
    }

    /// Clears the states of rows that start an episode.
    pub(crate) fn forget(&mut self, starts: &[bool]) {
        for (state, _) in self.states.iter_mut().zip(starts).filter(|(_, starts)| **starts) {
            state.hidden.fill(0.0);
            state.cell.fill(0.0);
        }
    }

    /// Writes the states from before the policy acts to the leaves of the extras, starting at leaf `first`.
    pub(crate) fn write_extras(&self, extras: &mut Buffer, first: usize) -> Result<()> {
        for (leaf, of_cells) in [true, false].into_iter().enumerate() {
            let all = extras.leaf_mut::<f32>(first + leaf)?;
            let width = all.len() / self.states.len().max(1);
            for (row, state) in all.chunks_exact_mut(width.max(1)).zip(&self.states) {
                row.copy_from_slice(if of_cells { &state.cell } else { &state.hidden });
            }
        }
        Ok(())
    }

    /// Computes the outputs for an observation in each row, and updates the states.
    pub(crate) fn act(
        &mut self,
        network: &RecurrentNetwork,
        params: &Params,
        observations: Inputs<'_>,
    ) -> &[f32] {
        let Self { states, outputs, scratch } = self;
        outputs.clear();
        for (observation, state) in observations.chunks(network.inputs()).zip(states) {
            let steps = Steps::new(1, &[false]);
            outputs.extend_from_slice(network.infer(params, observation, steps, state, scratch));
        }
        outputs
    }
}

impl Visited for RecurrentStates {
    fn visit(&mut self, state: &mut State<'_>) {
        for of_row in &mut self.states {
            state.fields(&mut of_row.cell);
            state.fields(&mut of_row.hidden);
        }
    }
}

/// Returns the initial states of sequences, from the extras of their first rows, `[batch, width]`. The first `first`
/// numbers of a row are other extras.
pub(crate) fn states_of(extras: &[f32], batch: usize, units: usize, first: usize) -> LstmState {
    let width = extras.len() / batch.max(1);
    let part = |from: usize| {
        let rows = extras.chunks_exact(width.max(1));
        rows.flat_map(|row| &row[from..from + units]).copied().collect()
    };
    LstmState { cell: part(first), hidden: part(first + units) }
}

#[cfg(test)]
mod tests {
    use relive_nn::{Activation, Key, Layout, Lstm, Network};

    use super::*;

    #[test]
    fn the_memory_extra_is_the_state_before_acting() {
        let mut layout = Layout::new();
        let torso = Network::builder(&mut layout, "torso", 1).mlp(&[4], Activation::Relu).build();
        let lstm = Lstm::new(&mut layout, "memory", 4, 3);
        let head = Network::builder(&mut layout, "head", 3).linear(2).build();
        let network = RecurrentNetwork::new(torso, lstm, head);
        let params = layout.init(Key::from_seed(1));
        let mut memory = RecurrentStates::new(&network, 2);
        let mut extras = Buffer::for_nest(&Nest::dict(RecurrentStates::extras(&network)), 2).unwrap();
        let first = memory.act(&network, &params, Inputs::Floats(&[1.0, 2.0])).to_vec();
        memory.forget(&[true, false]);
        memory.write_extras(&mut extras, 0).unwrap();
        let rows: Vec<f32> = (0..2)
            .flat_map(|row| {
                let part = |leaf| extras.leaf::<f32>(leaf).unwrap()[3 * row..3 * row + 3].to_vec();
                [part(0), part(1)].concat()
            })
            .collect();
        let actual = states_of(&rows, 2, 3, 0);
        assert!(actual.cell[..3].iter().chain(&actual.hidden[..3]).all(|number| *number == 0.0));
        assert_eq!(
            (&actual.cell[3..], &actual.hidden[3..]),
            (&memory.states[1].cell[..], &memory.states[1].hidden[..])
        );
        let second = memory.act(&network, &params, Inputs::Floats(&[1.0, 2.0]));
        assert_eq!(second[..2], first[..2], "a row whose state was reset acts as in its first step");
        assert_ne!(second[2..], first[2..], "a row that keeps its state does not");
    }
}
