//! A random policy.

use relive_tensor::{DType, Nest};

use crate::buffer::ViewMut;
use crate::error::{EnvError, Mismatch};
use crate::random::Generator;
use crate::spec::ArraySpec;
use crate::state::State;

/// Floats without bounds are drawn from ± this value.
const OPEN_BOUND: f64 = 1.0;

/// Draws uniformly from the actions that a spec allows. Numbers without bounds are drawn from -1 to 1, and numbers with
/// one bound from within 2 of that bound.
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
    /// Creates a policy for actions of this nest.
    #[must_use]
    pub fn new(actions: &Nest<ArraySpec>, seed: u64) -> Self {
        Self { leaves: actions.leaves().cloned().collect(), stream: Generator::new(seed) }
    }

    /// Writes an action.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the row does not have the actions' layout, or the policy does not support a leaf's type.
    pub fn act(&mut self, mut action: ViewMut<'_>) -> Result<(), EnvError> {
        for (index, spec) in self.leaves.iter().enumerate() {
            let bytes = action.leaf_bytes_mut(index).unwrap_or_default();
            fill(spec, bytes, &mut self.stream).ok_or_else(|| {
                EnvError::Action(Mismatch::boxed(index, "plain numbers of the spec's shape", spec))
            })?;
        }
        Ok(())
    }

    /// Visits the state on which the policy's future depends.
    pub fn state(&mut self, state: &mut State<'_>) {
        self.stream.state(state);
    }
}

pub(crate) fn fill(spec: &ArraySpec, bytes: &mut [u8], stream: &mut Generator) -> Option<()> {
    let size = spec.dtype.size_bytes()?;
    if bytes.len() != spec.num_elements().ok()? * size {
        return None;
    }
    for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
        let (low, high) = closed(spec.dtype, spec.bounds(index));
        write(spec.dtype, element, low, high, stream)?;
    }
    Some(())
}

/// Bounds on both sides, with defaults in place of missing bounds.
fn closed(dtype: DType, (low, high): (f64, f64)) -> (f64, f64) {
    let open = match dtype {
        DType::Float32 | DType::Float64 => OPEN_BOUND,
        _ => f64::from(i32::MAX),
    };
    match (low.is_finite(), high.is_finite()) {
        (true, true) => (low, high),
        (true, false) => (low, low + 2.0 * open),
        (false, true) => (high - 2.0 * open, high),
        (false, false) => (-open, open),
    }
}

/// Returns the nearest float32 that is not beyond the bounds.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub(crate) fn within(value: f64, low: f64, high: f64) -> f32 {
    let rounded = value as f32;
    if f64::from(rounded) > high {
        rounded.next_down()
    } else if f64::from(rounded) < low {
        rounded.next_up()
    } else {
        rounded
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers are within the range of their type"
)]
fn write(dtype: DType, element: &mut [u8], low: f64, high: f64, stream: &mut Generator) -> Option<()> {
    let mut whole = |least: f64, greatest: f64| {
        let (low, high) = (low.max(least), high.min(greatest));
        (low + (stream.random() * (high - low + 1.0)).floor()).min(high)
    };
    match dtype {
        DType::Float32 => {
            element.copy_from_slice(&within(stream.uniform(low, high), low, high).to_le_bytes());
        }
        DType::Float64 => element.copy_from_slice(&stream.uniform(low, high).to_le_bytes()),
        DType::Int32 => {
            let drawn = whole(f64::from(i32::MIN), f64::from(i32::MAX)) as i32;
            element.copy_from_slice(&drawn.to_le_bytes());
        }
        DType::Int64 => element.copy_from_slice(&(whole(low, high) as i64).to_le_bytes()),
        DType::UInt8 => element.copy_from_slice(&[whole(0.0, 255.0) as u8]),
        DType::Bool => element.copy_from_slice(&[whole(0.0, 1.0) as u8]),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    fn spec() -> Nest<ArraySpec> {
        let array = |dtype, dims: &[u32]| ArraySpec::new("", dtype, dims);
        Nest::List(vec![
            Nest::Leaf(ArraySpec::discrete("", 3)),
            Nest::Leaf(array(DType::Float32, &[2]).bounded_each(vec![-2.0, 5.0], vec![-1.0, 5.5])),
            Nest::Leaf(array(DType::Float64, &[])),
            Nest::Leaf(array(DType::Int64, &[2]).bounded(-3.0, 2.0)),
            Nest::Leaf(array(DType::UInt8, &[])),
            Nest::Leaf(array(DType::Bool, &[])),
        ])
    }

    #[test]
    fn random_actions_match_their_spec_and_cover_it() {
        let mut actions = Buffer::for_nest(&spec(), 1).unwrap();
        let mut policy = RandomPolicy::new(&spec(), 1);
        let (mut choices, mut wholes, mut widest) = ([0; 3], [0; 6], 0.0_f64);
        for _ in 0..600 {
            policy.act(actions.view_mut()).unwrap();
            actions.check_row(0, &spec()).unwrap();
            widest = widest.max(actions.leaf::<f64>(2).unwrap()[0].abs());
            choices[usize::try_from(actions.leaf::<i32>(0).unwrap()[0]).unwrap()] += 1;
            wholes[usize::try_from(actions.leaf::<i64>(3).unwrap()[1] + 3).unwrap()] += 1;
        }
        assert!(choices.iter().all(|count| (150..250).contains(count)), "{choices:?}");
        assert!((0.95..=1.0).contains(&widest), "{widest}");
        assert!(wholes.iter().all(|count| (60..140).contains(count)), "{wholes:?}");
    }

    #[test]
    fn whole_numbers_with_a_single_bound_are_spread_over_their_type() {
        let spec = Nest::Leaf(ArraySpec::new("", DType::Int32, [] as [u32; 0]).bounded(0.0, f64::INFINITY));
        let mut actions = Buffer::for_nest(&spec, 1).unwrap();
        let mut policy = RandomPolicy::new(&spec, 1);
        for _ in 0..100 {
            policy.act(actions.view_mut()).unwrap();
            assert!((0..i32::MAX).contains(&actions.leaf::<i32>(0).unwrap()[0]));
        }
    }

    #[test]
    fn bounds_without_an_exact_float32_are_respected() {
        for (low, high) in [(0.1, 0.1), (-0.1, -0.1), (0.1, 0.100_000_000_1)] {
            let rounded = f64::from(within(low, low, high));
            assert!((rounded - low).abs() < 1e-8, "{rounded}");
        }
        assert!(f64::from(within(0.1, 0.0, 0.1)) <= 0.1);
        assert!(f64::from(within(-0.1, -0.1, 0.0)) >= -0.1);
    }

    #[test]
    fn a_single_bound_is_kept() {
        assert_eq!(closed(DType::Float32, (3.0, f64::INFINITY)), (3.0, 5.0));
        assert_eq!(closed(DType::Float64, (f64::NEG_INFINITY, 3.0)), (1.0, 3.0));
    }

    #[test]
    fn non_numeric_dtypes_are_refused() {
        let nest = Nest::Leaf(ArraySpec::new("", DType::Complex64, []));
        let mut actions = Buffer::for_nest(&nest, 1).unwrap();
        let error = RandomPolicy::new(&nest, 1).act(actions.view_mut()).unwrap_err().to_string();
        assert!(error.starts_with("action at `0`: expected plain numbers"), "{error}");
        let mut other = Buffer::for_nest(&Nest::Leaf(ArraySpec::discrete("", 2)), 1).unwrap();
        assert!(RandomPolicy::new(&spec(), 1).act(other.view_mut()).is_err());
    }
}
