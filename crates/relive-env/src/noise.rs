//! Noise on a policy's actions.

use std::f64::consts::TAU;

use relive_tensor::{DType, Nest};

use crate::buffer::ViewMut;
use crate::error::{EnvError, Mismatch};
use crate::policy::{fill, within};
use crate::random::Generator;
use crate::spec::ArraySpec;

/// Adds noise to actions, so that recorded episodes also show the value of other actions. Normal noise is added to
/// floats, with a share of their range as its standard deviation; the results stay within the range. The same share is
/// the probability that an integer is replaced by a random one.
///
/// ```
/// use relive_env::{ActionNoise, ArraySpec, Buffer};
/// use relive_tensor::{DType, Nest};
/// let spec = Nest::Leaf(ArraySpec::new("torque", DType::Float32, [1]).bounded(-2.0, 2.0));
/// let mut action = Buffer::for_nest(&spec, 1)?;
/// ActionNoise::new(&spec, 0.1, 7)?.apply(action.view_mut())?;
/// assert!((-2.0..=2.0).contains(&action.leaf::<f32>(0)?[0]) && action.leaf::<f32>(0)?[0] != 0.0);
/// # Ok::<(), relive_env::EnvError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ActionNoise {
    leaves: Vec<ArraySpec>,
    share: f64,
    stream: Generator,
}

impl ActionNoise {
    /// Creates noise for actions of this nest; the seed determines all random numbers.
    ///
    /// # Errors
    /// [`EnvError::Setting`]: the share is not from 0 to 1, or it is above 0 and there are floats without bounds.
    pub fn new(actions: &Nest<ArraySpec>, share: f64, seed: u64) -> Result<Self, EnvError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(EnvError::Setting(Mismatch::boxed("noise", "a number from 0 to 1", share)));
        }
        let leaves: Vec<ArraySpec> = actions.leaves().cloned().collect();
        let open = leaves.iter().find(|leaf| is_float(leaf.dtype) && !is_bounded(leaf));
        if let Some(open) = open.filter(|_| share > 0.0) {
            return Err(EnvError::Setting(Mismatch::boxed("noise", "actions between bounds", open)));
        }
        Ok(Self { leaves, share, stream: Generator::new(seed) })
    }

    /// Adds noise to an action.
    ///
    /// # Errors
    /// [`EnvError::Action`] if the row does not have the actions' layout, or noise does not support a leaf's type.
    pub fn apply(&mut self, mut action: ViewMut<'_>) -> Result<(), EnvError> {
        let Self { leaves, share, stream } = self;
        if *share == 0.0 {
            return Ok(());
        }
        for (index, spec) in leaves.iter().enumerate() {
            match spec.dtype {
                DType::Float32 => {
                    for (place, value) in action.leaf_mut::<f32>(index)?.iter_mut().enumerate() {
                        let (low, high) = spec.bounds(place);
                        *value = within(moved(f64::from(*value), (low, high), *share, stream), low, high);
                    }
                }
                DType::Float64 => {
                    for (place, value) in action.leaf_mut::<f64>(index)?.iter_mut().enumerate() {
                        *value = moved(*value, spec.bounds(place), *share, stream);
                    }
                }
                _ if stream.random() >= *share => {}
                _ => {
                    let bytes = action.leaf_bytes_mut(index).unwrap_or_default();
                    fill(spec, bytes, stream).ok_or_else(|| {
                        EnvError::Action(Mismatch::boxed(index, "plain numbers of the spec's shape", spec))
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64)
}

fn is_bounded(spec: &ArraySpec) -> bool {
    let count = spec.num_elements().unwrap_or(0);
    (0..count).all(|index| {
        let (low, high) = spec.bounds(index);
        low.is_finite() && high.is_finite()
    })
}

/// Returns a number with noise added, within its bounds.
fn moved(value: f64, (low, high): (f64, f64), share: f64, stream: &mut Generator) -> f64 {
    // Box and Muller's method; the first number is never 0.
    let radius = (-2.0 * (1.0 - stream.random()).ln()).sqrt();
    let normal = radius * (TAU * stream.random()).cos();
    (value + share * (high - low) * normal).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn action_noise_has_the_requested_deviation_within_bounds() {
        let spec =
            Nest::Leaf(ArraySpec::new("", DType::Float32, [2]).bounded_each(vec![-2.0, 0.0], vec![2.0, 1.0]));
        let mut noise = ActionNoise::new(&spec, 0.1, 1).unwrap();
        let mut action = Buffer::for_nest(&spec, 1).unwrap();
        let (mut squares, mut edge) = (0.0, 0);
        for _ in 0..4_000 {
            action.leaf_mut::<f32>(0).unwrap().copy_from_slice(&[0.5, 1.0]);
            noise.apply(action.view_mut()).unwrap();
            action.check_row(0, &spec).unwrap();
            let [inner, outer] = *action.leaf::<f32>(0).unwrap() else { unreachable!("two numbers") };
            squares += (f64::from(inner) - 0.5).powi(2);
            edge += u32::from(outer == 1.0);
        }
        let deviation = (squares / 4_000.0).sqrt();
        assert!((deviation - 0.4).abs() < 0.02, "a tenth of the range of 4: {deviation}");
        assert!((1_800..2_200).contains(&edge), "{edge}");
    }

    #[test]
    fn the_requested_share_of_discrete_actions_is_random() {
        let spec = Nest::Leaf(ArraySpec::discrete("", 4));
        let changed = |share: f64| {
            let mut noise = ActionNoise::new(&spec, share, 1).unwrap();
            let mut action = Buffer::for_nest(&spec, 1).unwrap();
            let changes = (0..4_000).filter(|_| {
                action.leaf_mut::<i32>(0).unwrap()[0] = 3;
                noise.apply(action.view_mut()).unwrap();
                action.leaf::<i32>(0).unwrap()[0] != 3
            });
            changes.count()
        };
        assert_eq!(changed(0.0), 0);
        assert!(
            (500..700).contains(&changed(0.2)),
            "three of four random actions differ from the given one: {}",
            changed(0.2)
        );
    }

    #[test]
    fn invalid_action_noise_is_refused() {
        let discrete = Nest::Leaf(ArraySpec::discrete("", 4));
        for share in [-0.1, 1.5, f64::NAN] {
            let error = ActionNoise::new(&discrete, share, 1).unwrap_err().to_string();
            assert!(error.contains("a number from 0 to 1"), "{error}");
        }
        let open = Nest::Leaf(ArraySpec::new("", DType::Float32, [1]));
        let error = ActionNoise::new(&open, 0.1, 1).unwrap_err().to_string();
        assert!(error.contains("between bounds"), "{error}");
    }
}
