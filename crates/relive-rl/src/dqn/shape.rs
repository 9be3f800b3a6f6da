//! What a network of action values is made for and of.

use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::{DType, Nest};

use super::{DqnConfig, DqnLoss};
use crate::limits::{MAX_ATOMS, MAX_LAYERS, MAX_LEAVES};
use crate::{Result, RlError};

/// All that a network of action values is built from.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkShape {
    /// The leaves of an observation, in their order.
    pub observations: Vec<LeafShape>,
    /// How many actions there are.
    pub actions: usize,
    /// Sizes of the hidden layers.
    pub hidden: Vec<usize>,
    /// Whether there is a value and an advantage head.
    pub duelling: bool,
    /// What its outputs are.
    pub loss: DqnLoss,
    /// Atoms of a categorical distribution, or quantiles.
    pub atoms: usize,
    /// The outermost atoms of a categorical distribution.
    pub value_range: [f32; 2],
}

/// One leaf of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafShape {
    /// Way to it, such as `camera/0`; empty for an observation without parts.
    pub path: String,
    /// Type of its elements.
    pub dtype: DType,
    /// Sizes of its dimensions.
    pub dims: Vec<u32>,
}

impl NetworkShape {
    /// The shape for an environment with one discrete action.
    ///
    /// # Errors
    /// [`Unsuited`](RlError::Unsuited) for environments with other actions, with the place of what is not supported.
    pub fn new(spec: &EnvironmentSpec, config: &DqnConfig) -> Result<NetworkShape> {
        let (observations, actions) = (LeafShape::all_of(&spec.observations), num_actions(spec)?);
        let DqnConfig { duelling, loss, atoms, value_range, .. } = *config;
        let hidden = config.hidden.clone();
        Ok(NetworkShape { observations, actions, hidden, duelling, loss, atoms, value_range })
    }

    /// Observations as a list of leaves, for a [`Buffer`](relive_env::Buffer) that holds one.
    #[must_use]
    pub fn observation_nest(&self) -> Nest<ArraySpec> {
        let leaf = |leaf: &LeafShape| ArraySpec::new(&leaf.path, leaf.dtype, leaf.dims.as_slice());
        Nest::List(self.observations.iter().map(|shape| Nest::Leaf(leaf(shape))).collect())
    }

    /// Whether there can be such a network at all, for `inputs` numbers.
    pub(super) fn check(&self, inputs: usize) -> Result<()> {
        let within = |name, value: usize, bound, expected| match value {
            value if (1..=bound).contains(&value) => Ok(()),
            value => Err(RlError::setting(name, value, expected)),
        };
        within(
            "the number of leaves of an observation",
            self.observations.len(),
            MAX_LEAVES,
            "from 1 to 4096",
        )?;
        within("the number of numbers of an observation", inputs, usize::MAX, "at least 1")?;
        within("the number of actions", self.actions, usize::MAX, "at least 1")?;
        within("the number of hidden layers", self.hidden.len() + 1, MAX_LAYERS + 1, "at most 256")?;
        for size in &self.hidden {
            within("hidden", *size, usize::MAX, "a list of sizes of at least 1")?;
        }
        within("atoms", self.atoms.saturating_sub(1), MAX_ATOMS - 1, "from 2 to 4096")?;
        let [least, most] = self.value_range;
        if !(least.is_finite() && most.is_finite() && least < most) {
            let got = format_args!("[{least}, {most}]");
            return Err(RlError::setting("value_range", got, "a range upwards"));
        }
        let most = relive_nn::limits::MAX_PARAMETERS;
        match self.parameters(inputs) {
            Some(count) if count <= most => Ok(()),
            count => {
                let got = count.map_or_else(|| "beyond counting".to_owned(), |count| count.to_string());
                Err(RlError::setting("the number of parameters", got, "at most 2**28; use smaller layers"))
            }
        }
    }

    /// An upper bound on the numbers of the network.
    fn parameters(&self, inputs: usize) -> Option<usize> {
        let outputs = self.actions.checked_add(1)?.checked_mul(self.atoms)?;
        let mut widest = inputs.checked_add(1)?;
        let mut total = 0_usize;
        for size in self.hidden.iter().copied().chain([outputs]) {
            total = size.checked_mul(widest)?.checked_mul(2)?.checked_add(total)?;
            widest = size.checked_add(1)?;
        }
        Some(total)
    }
}

impl LeafShape {
    /// The leaves of a nest.
    pub(crate) fn all_of(nest: &Nest<ArraySpec>) -> Vec<LeafShape> {
        let leaves = nest.flatten_with_paths().into_iter();
        let shapes = leaves.map(|(path, leaf)| LeafShape {
            path: path.to_string(),
            dtype: leaf.dtype,
            dims: leaf.shape.dims().to_vec(),
        });
        shapes.collect()
    }
}

/// How many actions there are, where there is one discrete action.
///
/// # Errors
/// [`Unsuited`](RlError::Unsuited) for other actions, with the place of what is not supported.
pub(crate) fn num_actions(spec: &EnvironmentSpec) -> Result<usize> {
    let unsuited = |got| RlError::Unsuited { expected: "one discrete action", got };
    let actions = spec.num_actions().ok_or_else(|| unsuited(told(&spec.actions)))?;
    Ok(usize::try_from(actions).unwrap_or(usize::MAX))
}

/// What actions there are, and where.
fn told(actions: &Nest<ArraySpec>) -> String {
    let leaves: Vec<_> = actions
        .flatten_with_paths()
        .into_iter()
        .map(|(path, leaf)| match path.to_string() {
            path if path.is_empty() => leaf.to_string(),
            path => format!("{leaf} at `{path}`"),
        })
        .collect();
    match leaves.as_slice() {
        [] => "no actions".to_owned(),
        leaves => format!("actions of {}", leaves.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut NetworkShape)) -> String {
        let leaf = LeafShape { path: String::new(), dtype: DType::Float32, dims: vec![4] };
        let mut shape = NetworkShape {
            observations: vec![leaf],
            actions: 2,
            hidden: vec![8],
            duelling: false,
            loss: DqnLoss::DoubleQ,
            atoms: 51,
            value_range: [-10.0, 10.0],
        };
        assert!(shape.check(4).is_ok());
        change(&mut shape);
        shape.check(4).unwrap_err().to_string()
    }

    #[test]
    fn networks_that_cannot_be_are_refused() {
        assert_eq!(
            refused(|shape| shape.actions = 0),
            "the number of actions is 0, but it must be at least 1"
        );
        assert_eq!(
            refused(|shape| shape.hidden = vec![0]),
            "hidden is 0, but it must be a list of sizes of at least 1"
        );
        assert!(refused(|shape| shape.hidden = vec![1; 300]).contains("at most 256"));
        assert!(refused(|shape| shape.hidden = vec![1 << 20; 2]).contains("at most 2**28"));
        assert!(refused(|shape| shape.hidden = vec![usize::MAX]).contains("beyond counting"));
        assert!(refused(|shape| shape.atoms = 1).contains("from 2 to 4096"));
        assert!(refused(|shape| shape.value_range = [1.0, 1.0]).contains("upwards"));
        assert!(refused(|shape| shape.observations.clear()).contains("leaves"));
    }

    #[test]
    fn actions_that_are_not_supported_are_told_with_their_place() {
        let observations = ArraySpec::new("", DType::Float32, [1]);
        let told = |actions: Nest<ArraySpec>| {
            let spec = EnvironmentSpec::new(observations.clone(), actions);
            NetworkShape::new(&spec, &DqnConfig::default()).unwrap_err().to_string()
        };
        let torque = ArraySpec::new("", DType::Float32, [2]).bounded(-1.0, 1.0);
        let start = "this agent takes one discrete action, but the environment has actions of ";
        assert_eq!(told(Nest::Leaf(torque.clone())), format!("{start}float32 (2,) in -1..=1"));
        let parts = [("grip", Nest::Leaf(ArraySpec::discrete("", 3))), ("turn", Nest::Leaf(torque))];
        assert_eq!(
            told(Nest::dict(parts)),
            format!("{start}a number in 0..3 at `grip`, float32 (2,) in -1..=1 at `turn`")
        );
    }
}
