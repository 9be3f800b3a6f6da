//! Concatenated observations.

use relive_tensor::{Nest, Shape};

use crate::buffer::Action;
use crate::buffer::{Buffer, ViewMut};
use crate::environment::Environment;
use crate::error::{EnvError, Mismatch};
use crate::spec::{ArraySpec, Domain, EnvironmentSpec};
use crate::timestep::TimeStep;

/// Concatenates all leaves of an observation into one array, sorted by the keys of dicts or in a given order. All
/// leaves must have one type.
#[derive(Clone, Debug)]
pub struct ConcatObservation<E> {
    environment: E,
    spec: EnvironmentSpec,
    observation: Buffer,
    /// The leaves in the order of concatenation.
    order: Vec<usize>,
    /// A buffer with the layout of the observations.
    like: Buffer,
}

impl<E: Environment> ConcatObservation<E> {
    /// Returns the wrapped environment.
    pub fn inner(&self) -> &E {
        &self.environment
    }

    /// Concatenates all leaves, in the order of the spec.
    ///
    /// # Errors
    /// [`EnvError::Spec`] if there are no leaves, or they have several types.
    pub fn new(environment: E) -> Result<Self, EnvError> {
        let order = (0..environment.spec().observations.len()).collect();
        Self::build(environment, order)
    }

    /// Concatenates only the named leaves, in this order; names are paths such as `arm/position`.
    ///
    /// # Errors
    /// [`EnvError::Setting`] if a leaf does not exist, and the errors of [`ConcatObservation::new`].
    pub fn with_order(environment: E, names: &[&str]) -> Result<Self, EnvError> {
        let paths: Vec<String> = environment
            .spec()
            .observations
            .flatten_with_paths()
            .iter()
            .map(|(path, _)| path.to_string())
            .collect();
        let find = |name: &&str| {
            paths.iter().position(|path| path == name).ok_or_else(|| {
                EnvError::Setting(Mismatch::boxed("order", format_args!("one of {}", paths.join(", ")), name))
            })
        };
        let order = names.iter().map(find).collect::<Result<_, _>>()?;
        Self::build(environment, order)
    }

    fn build(environment: E, order: Vec<usize>) -> Result<Self, EnvError> {
        let mut spec = environment.spec().clone();
        let observation = Buffer::for_nest(&spec.observations, 1)?;
        let leaves: Vec<&ArraySpec> = spec.observations.leaves().collect();
        let chosen: Vec<&ArraySpec> = order.iter().filter_map(|leaf| leaves.get(*leaf).copied()).collect();
        spec.observations = Nest::Leaf(concatenated(&chosen)?);
        let like = Buffer::for_nest(&spec.observations, 1)?;
        Ok(Self { environment, spec, observation, order, like })
    }

    fn show(&self, step: TimeStep, mut observation: ViewMut<'_>) -> TimeStep {
        let mut rest = observation.leaf_bytes_mut(0).unwrap_or_default();
        for leaf in &self.order {
            let from = self.observation.leaf_bytes(*leaf).unwrap_or_default();
            let Some((to, after)) = rest.split_at_mut_checked(from.len()) else { break };
            to.copy_from_slice(from);
            rest = after;
        }
        step
    }
}

fn concatenated(leaves: &[&ArraySpec]) -> Result<ArraySpec, EnvError> {
    let wrong = |expected: &str, actual: &dyn std::fmt::Display| {
        EnvError::Spec(Mismatch::boxed("observation", expected, actual))
    };
    let first = leaves.first().ok_or_else(|| wrong("at least one leaf", &"none"))?;
    if let Some(other) = leaves.iter().find(|leaf| leaf.dtype != first.dtype) {
        return Err(wrong("leaves of one type", &format_args!("{first} and {other}")));
    }
    let (mut minimum, mut maximum) = (Vec::new(), Vec::new());
    for leaf in leaves {
        let bounds = (0..leaf.num_elements()?).map(|index| leaf.bounds(index));
        let (low, high): (Vec<f64>, Vec<f64>) = bounds.unzip();
        minimum.extend(low);
        maximum.extend(high);
    }
    let count = u32::try_from(minimum.len()).map_err(|_| wrong("a length that fits", &minimum.len()))?;
    let open = minimum.iter().chain(&maximum).all(|bound| bound.is_infinite());
    let domain = if open { Domain::Any } else { Domain::Bounded { minimum, maximum } };
    Ok(ArraySpec { name: "observation".to_owned(), dtype: first.dtype, shape: Shape::from([count]), domain })
}

impl<E: Environment> Environment for ConcatObservation<E> {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.like.view())?;
        let step = self.environment.reset(self.observation.view_mut())?;
        Ok(self.show(step, observation))
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        observation.expect_like(self.like.view())?;
        let step = self.environment.step(action, self.observation.view_mut())?;
        Ok(self.show(step, observation))
    }

    fn demonstrate(&self, action: ViewMut<'_>) -> Result<bool, EnvError> {
        self.environment.demonstrate(action)
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.environment.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.environment.restore(state)
    }
}
