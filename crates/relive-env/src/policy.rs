//! Acting at random.

use relive_tensor::{DType, Nest};

use crate::buffer::ViewMut;
use crate::error::{EnvError, Mismatch};
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;

/// How far numbers without a bound are drawn to either side.
const OPEN_BOUND: f64 = 1.0;

/// Draws actions that a spec allows, each as likely as any other; numbers without bounds between -1 and 1.
///
/// ```
/// use relive_env::{ArraySpec, Buffer, RandomPolicy};
/// use relive_tensor::Nest;
/// let spec = Nest::Leaf(ArraySpec::discrete("action", 3));
/// let mut action = Buffer::for_nest(&spec, 1)?;
/// RandomPolicy::new(&spec, 7).act(action.view_mut())?;
/// assert!((0..3).contains(&action.leaf::<i32>(0)?[0]));
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomPolicy {
    leaves: Vec<ArraySpec>,
    stream: Generator,
}

impl RandomPolicy {
    /// A policy for actions of this nest.
    #[must_use]
    pub fn new(actions: &Nest<ArraySpec>, seed: u64) -> Self {
        Self { leaves: actions.leaves().cloned().collect(), stream: Generator::new(seed) }
    }

    /// Writes an action.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the row is not laid out for the actions, or a leaf is of a type that no numbers are drawn for.
    pub fn act(&mut self, mut action: ViewMut<'_>) -> Result<(), EnvError> {
        for (index, spec) in self.leaves.iter().enumerate() {
            let bytes = action.leaf_bytes_mut(index).unwrap_or_default();
            fill(spec, bytes, &mut self.stream).ok_or_else(|| {
                EnvError::Action(Mismatch::boxed(index, "plain numbers of the spec's shape", spec))
            })?;
        }
        Ok(())
    }

    /// All that the policy's future depends on.
    pub fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
    }
}

fn fill(spec: &ArraySpec, bytes: &mut [u8], stream: &mut Generator) -> Option<()> {
    let size = spec.dtype.size_bytes()?;
    if bytes.len() != spec.num_elements().ok()? * size {
        return None;
    }
    for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
        let (low, high) = spec.bounds(index);
        let (low, high) = (low.max(least(spec.dtype)), high.min(-least(spec.dtype)));
        write(spec.dtype, element, low, high, stream)?;
    }
    Some(())
}

/// The least number that is drawn without a bound.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::Float32 | DType::Float64 => -OPEN_BOUND,
        _ => f64::from(i32::MIN),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers are within the bounds of their type"
)]
fn write(dtype: DType, element: &mut [u8], low: f64, high: f64, stream: &mut Generator) -> Option<()> {
    let mut whole = |least: f64, greatest: f64| {
        let (low, high) = (low.max(least), high.min(greatest));
        (low + (stream.random() * (high - low + 1.0)).floor()).min(high)
    };
    match dtype {
        DType::Float32 => element.copy_from_slice(&(stream.uniform(low, high) as f32).to_le_bytes()),
        DType::Float64 => element.copy_from_slice(&stream.uniform(low, high).to_le_bytes()),
        DType::Int32 => element.copy_from_slice(&(whole(low, high) as i32).to_le_bytes()),
        DType::Int64 => element.copy_from_slice(&(whole(low, high) as i64).to_le_bytes()),
        DType::UInt8 => element.copy_from_slice(&[whole(0.0, 255.0) as u8]),
        DType::Bool => element.copy_from_slice(&[whole(0.0, 1.0) as u8]),
        _ => return None,
    }
    Some(())
}
