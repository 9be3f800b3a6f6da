//! The state of wrappers between steps.

use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::limits::MAX_REPEATS;
use crate::random::RandomState;
use crate::state::State;

/// Fields that are saved with the environment.
pub(crate) trait Memory: Clone {
    fn state(&mut self, state: &mut State<'_>);
}

pub(crate) fn save<E: Environment>(environment: &mut E, memory: &mut impl Memory) -> Option<Vec<u8>> {
    let mut inner = environment.save()?;
    let mut bytes = Vec::new();
    let mut state = State::writer(&mut bytes);
    state.bytes(&mut inner);
    memory.state(&mut state);
    Some(bytes)
}

/// Restores the environment and the wrapper's fields. On an error, nothing changes.
pub(crate) fn restore<E: Environment, M: Memory>(
    environment: &mut E,
    memory: &mut M,
    bytes: &[u8],
) -> Result<(), EnvError> {
    let (mut inner, mut read) = (Vec::new(), memory.clone());
    let mut state = State::reader(bytes);
    state.bytes(&mut inner);
    read.state(&mut state);
    state.finish()?;
    environment.restore(&inner)?;
    *memory = read;
    Ok(())
}

impl Memory for Buffer {
    fn state(&mut self, state: &mut State<'_>) {
        for leaf in 0..self.num_leaves() {
            state.fields(self.leaf_bytes_mut(leaf).unwrap_or_default());
        }
    }
}

impl Memory for RandomState {
    fn state(&mut self, state: &mut State<'_>) {
        RandomState::state(self, state);
    }
}

/// Returns a number of steps or frames that is at least 1.
pub(super) fn checked_count(name: &str, count: usize) -> Result<usize, EnvError> {
    if (1..=MAX_REPEATS).contains(&count) {
        Ok(count)
    } else {
        Err(EnvError::Setting(Mismatch::boxed(name, format_args!("1..={MAX_REPEATS}"), count)))
    }
}
