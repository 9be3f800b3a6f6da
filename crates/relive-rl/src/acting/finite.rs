//! Checks for numbers that a learner cannot use.

use relive_env::{ArraySpec, Buffer, EnvironmentSpec, TimeStep, View};
use relive_tensor::{DType, Nest};

use crate::{Result, RlError};

/// Rejects numbers from an environment that are not finite or do not fit in a float32, because a single such number in
/// a batch corrupts all parameters of a network.
pub(crate) struct FiniteCheck {
    environment: String,
    /// The leaves with their paths.
    leaves: Vec<(String, ArraySpec)>,
    episode: u64,
    step: u64,
}

impl FiniteCheck {
    pub(crate) fn new(spec: &EnvironmentSpec) -> FiniteCheck {
        let leaves = spec.observations.flatten_with_paths().into_iter();
        let leaves = leaves.map(|(path, leaf)| (path.to_string(), leaf.clone())).collect();
        FiniteCheck { environment: "the environment".to_owned(), leaves, episode: 0, step: 0 }
    }

    pub(crate) fn name(&mut self, environment: &str) {
        environment.clone_into(&mut self.environment);
    }

    /// Checks the first observation of an episode.
    pub(crate) fn first(&mut self, observation: View<'_>) -> Result<()> {
        self.episode += 1;
        self.step = 0;
        self.observation(observation)
    }

    /// Checks a further step.
    pub(crate) fn next(&mut self, step: TimeStep, observation: View<'_>) -> Result<()> {
        self.step += 1;
        for (what, value) in [("reward", step.reward), ("discount", step.discount)] {
            if !is_learnable(value) {
                return Err(self.refused(what.to_owned(), value));
            }
        }
        self.observation(observation)
    }

    fn observation(&self, observation: View<'_>) -> Result<()> {
        for (index, (path, leaf)) in self.leaves.iter().enumerate() {
            let found = match leaf.dtype {
                DType::Float32 => first_of(observation.leaf::<f32>(index)?, |value| f64::from(*value)),
                DType::Float64 => first_of(observation.leaf::<f64>(index)?, |value| *value),
                _ => None,
            };
            if let Some((place, value)) = found {
                let path = if path.is_empty() { String::new() } else { format!(" of `{path}`") };
                return Err(self.refused(format!("observation{path} at {}", index_of(leaf, place)), value));
            }
        }
        Ok(())
    }

    fn refused(&self, place: String, value: f64) -> RlError {
        let environment = self.environment.clone();
        RlError::NotFinite { environment, episode: self.episode, step: self.step, place, value }
    }
}

/// Rejects extras of a policy that are NaN. Infinite extras may be intended, for example logits of masked actions.
pub(super) struct ExtrasCheck {
    /// The leaves with their paths.
    leaves: Vec<(String, ArraySpec)>,
}

impl ExtrasCheck {
    pub(super) fn new(extras: &Nest<ArraySpec>) -> ExtrasCheck {
        let leaves = extras.flatten_with_paths().into_iter();
        ExtrasCheck { leaves: leaves.map(|(path, leaf)| (path.to_string(), leaf.clone())).collect() }
    }

    /// Checks the extras of all environments of a worker, from the policy with the given name.
    pub(super) fn check(&self, extras: &Buffer, policy: &str) -> Result<()> {
        for (index, (path, leaf)) in self.leaves.iter().enumerate() {
            let found = match leaf.dtype {
                DType::Float32 => extras.leaf::<f32>(index)?.iter().position(|value| value.is_nan()),
                DType::Float64 => extras.leaf::<f64>(index)?.iter().position(|value| value.is_nan()),
                _ => None,
            };
            let Some(element) = found else { continue };
            let count = leaf.num_elements()?.max(1);
            let (row, place) = (element / count, index_of(leaf, element % count));
            let path = if path.is_empty() { String::new() } else { format!(" of `{path}`") };
            return Err(RlError::Extras {
                policy: policy.to_owned(),
                place: format!("element {place}{path} in the worker's environment {row}"),
            });
        }
        Ok(())
    }
}

/// Returns the first unusable number. Usually there is none, so the check is branchless.
fn first_of<T>(values: &[T], number: impl Fn(&T) -> f64) -> Option<(usize, f64)> {
    if !values.iter().fold(false, |is_found, value| is_found | !is_learnable(number(value))) {
        return None;
    }
    values.iter().map(number).enumerate().find(|(_, value)| !is_learnable(*value))
}

/// Returns whether a number is finite as a float32, the type that networks use.
#[expect(clippy::cast_possible_truncation, reason = "the function checks whether the cast is possible")]
pub(crate) fn is_learnable(value: f64) -> bool {
    (value as f32).is_finite()
}

/// Returns the index of an element of a leaf, as in `[2, 0]`.
fn index_of(leaf: &ArraySpec, mut element: usize) -> String {
    let mut index = Vec::new();
    for dim in leaf.shape.dims().iter().rev() {
        let dim = usize::try_from(*dim).unwrap_or(1).max(1);
        index.push((element % dim).to_string());
        element /= dim;
    }
    index.reverse();
    format!("[{}]", index.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_that_are_nan_are_refused_with_their_path() {
        let leaf = |dtype, dims: &[u32]| Nest::Leaf(ArraySpec::new("", dtype, dims));
        let nest = Nest::dict([
            ("count", leaf(DType::Int64, &[])),
            ("state", leaf(DType::Float32, &[2, 3])),
            ("value", leaf(DType::Float64, &[])),
        ]);
        let (mut extras, check) = (Buffer::for_nest(&nest, 2).unwrap(), ExtrasCheck::new(&nest));
        extras.leaf_mut::<f32>(1).unwrap()[0] = f32::NEG_INFINITY;
        check.check(&extras, "the policy").unwrap();
        extras.leaf_mut::<f64>(2).unwrap()[1] = f64::NAN;
        let error = check.check(&extras, "the policy").unwrap_err().to_string();
        assert!(
            error.contains("NaN in its extras, element [] of `value` in the worker's environment 1"),
            "{error}"
        );
        extras.leaf_mut::<f32>(1).unwrap()[6 + 4] = f32::NAN;
        let error = check.check(&extras, "the policy").unwrap_err().to_string();
        assert!(error.contains("NaN in its extras, element [1, 1] of `state` in"), "{error}");
    }
}
