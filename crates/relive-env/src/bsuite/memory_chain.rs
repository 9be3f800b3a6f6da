//! Bits to remember.

use relive_tensor::DType;

use super::Totals;
use super::size::checked;
use crate::error::EnvError;
use crate::random::RandomState;
use crate::spec::ArraySpec;
use crate::state::State;
use crate::task::{Native, Task};
use crate::timestep::TimeStep;

/// A chain that shows bits at the start, and requests one of them at the end.
///
/// Observations are 1 - time / length, the number of the requested bit (shown one step before the answer, 0 otherwise),
/// and the bits as ±1 (shown at time 0, 0 otherwise), `[1, bits + 2]`. The first step shows the first observation
/// again, as in the original. An episode has `length + 1` steps; the last action earns 1 if it matches the bit,
/// otherwise -1.
pub type MemoryChain = Native<MemoryChainTask>;

/// The task of [`MemoryChain`].
#[derive(Clone, Debug)]
pub struct MemoryChainTask {
    length: u32,
    stream: RandomState,
    bits: Vec<bool>,
    query: u32,
    steps: u32,
    total_perfect: f64,
    total_regret: f64,
}

impl MemoryChain {
    /// Creates a chain of `memory_length` with `num_bits` bits, drawn from a seed's stream.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if a size is 0 or exceeds [`MAX_BSUITE_SIZE`](crate::limits::MAX_BSUITE_SIZE).
    pub fn new(memory_length: u32, num_bits: u32, seed: u32) -> Result<Self, EnvError> {
        let num_bits = checked("num_bits", num_bits, 1)?;
        let mut task = MemoryChainTask {
            length: checked("memory_length", memory_length, 1)?,
            stream: RandomState::new(seed),
            bits: vec![false; num_bits as usize],
            query: 0,
            steps: 0,
            total_perfect: 0.0,
            total_regret: 0.0,
        };
        task.draw();
        Ok(Self::from(task))
    }
}

impl MemoryChainTask {
    /// Draws the bits and the query. The original also draws once at construction, so it draws one more time than there
    /// are episodes.
    fn draw(&mut self) {
        self.bits.iter_mut().for_each(|bit| *bit = self.stream.bernoulli(0.5));
        let count = i64::try_from(self.bits.len()).unwrap_or(1);
        self.query = u32::try_from(self.stream.randint(0, count)).unwrap_or(0);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "observations are float32, queries are below 2^12"
    )]
    fn observe(&self, observation: &mut [f32]) {
        observation.fill(0.0);
        let [time, query, bits @ ..] = observation else { return };
        *time = (1.0 - f64::from(self.steps) / f64::from(self.length)) as f32;
        if self.steps == self.length - 1 {
            *query = self.query as f32;
        }
        if self.steps == 0 {
            for (cell, bit) in bits.iter_mut().zip(&self.bits) {
                *cell = if *bit { 1.0 } else { -1.0 };
            }
        }
    }
}

impl Task for MemoryChainTask {
    type Action<'a> = u32;

    fn observations(&self) -> ArraySpec {
        let bits = u32::try_from(self.bits.len()).unwrap_or(u32::MAX);
        ArraySpec::new("observation", DType::Float32, [1, bits.saturating_add(2)])
    }

    fn actions(&self) -> ArraySpec {
        ArraySpec::discrete("action", 2)
    }

    fn begin(&mut self, observation: &mut [f32]) {
        self.steps = 0;
        self.draw();
        self.observe(observation);
    }

    fn act(&mut self, action: u32, observation: &mut [f32]) -> TimeStep {
        self.observe(observation);
        self.steps += 1;
        if self.steps <= self.length {
            return TimeStep::transition(0.0);
        }
        let right = self.bits.get(self.query as usize).is_some_and(|bit| u32::from(*bit) == action);
        if right {
            self.total_perfect += 1.0;
        } else {
            self.total_regret += 2.0;
        }
        TimeStep::termination(if right { 1.0 } else { -1.0 })
    }

    fn state(&mut self, state: &mut State<'_>) {
        state.constant(self.length);
        state.constant(self.bits.len() as u64);
        self.stream.state(state);
        state.fields(&mut self.bits);
        state.field(&mut self.query);
        state.field(&mut self.steps);
        state.field(&mut self.total_perfect);
        state.field(&mut self.total_regret);
    }
}

impl Totals for MemoryChainTask {
    fn totals(&self) -> Vec<(&'static str, f64)> {
        vec![("total_perfect", self.total_perfect), ("total_regret", self.total_regret)]
    }
}
