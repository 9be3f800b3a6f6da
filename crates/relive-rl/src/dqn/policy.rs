//! What an agent has learned, to act by and to keep.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use relive_env::{EnvError, Mismatch, View};
use relive_nn::{Key, Params, Scratch, safetensors_metadata};
use relive_tensor::DType;

use super::{DqnConfig, NetworkShape, QNetwork, saved};
use crate::experiment::Trained;
use crate::{Result, RlError, files};

/// The greedy policy of a trained network: the action of the greatest value, the first of them if there are several.
///
/// Saved policies are safetensors files: the network's parameters by their names, and under the metadata's name `relive.policy` its
/// shape as JSON.
///
/// ```
/// use relive_env::{Buffer, Environment};
/// use relive_rl::dqn::{DqnConfig, Policy, QNetwork};
///
/// let mut environment = relive_env::make("catch/0", 1)?;
/// let network = QNetwork::new(environment.spec(), &DqnConfig::default())?;
/// let params = network.init(relive_nn::Key::from_seed(1));
/// let mut policy = Policy::from_bytes(&Policy::new(network, params).to_bytes()?)?;
/// let mut observation = Buffer::for_nest(&environment.spec().observations, 1)?;
/// environment.reset(observation.view_mut())?;
/// assert!(policy.act(observation.view())? < 3);
/// # Ok::<(), relive_rl::RlError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    network: QNetwork,
    params: Arc<Params>,
    row: Vec<f32>,
    values: Vec<f32>,
    scratch: Scratch,
}

impl Policy {
    /// The policy of a network with its parameters.
    #[must_use]
    pub fn new(network: QNetwork, params: impl Into<Arc<Params>>) -> Policy {
        let row = vec![0.0; network.features.width()];
        Policy { network, params: params.into(), row, values: Vec::new(), scratch: Scratch::default() }
    }

    /// What a run of an agent with these settings has learned.
    ///
    /// # Errors
    /// The run was of other settings.
    pub fn of(trained: &Trained, config: &DqnConfig) -> Result<Policy> {
        let network = QNetwork::new(&trained.spec, config)?;
        let found = trained.params.values().len();
        if found != network.parameters() {
            let reason = format!("{found} parameters, but these settings have {}", network.parameters());
            return Err(RlError::Policy { reason });
        }
        Ok(Policy::new(network, Arc::clone(&trained.params)))
    }

    /// What its network is made for and of.
    #[must_use]
    pub fn shape(&self) -> &NetworkShape {
        self.network.shape()
    }

    /// The value of each action.
    ///
    /// # Errors
    /// The observation is not laid out as those that were learned from.
    pub fn values(&mut self, observation: View<'_>) -> Result<&[f32]> {
        self.expect_like(observation)?;
        self.network.features.write(observation, &mut self.row);
        let outputs = self.network.network.infer(&self.params, &self.row, &mut self.scratch);
        Ok(self.network.rule.values(outputs, &mut self.values))
    }

    /// The action to take.
    ///
    /// # Errors
    /// As [`values`](Self::values).
    pub fn act(&mut self, observation: View<'_>) -> Result<usize> {
        let mut best = (0, f32::NEG_INFINITY);
        for (action, value) in self.values(observation)?.iter().enumerate() {
            if *value > best.1 {
                best = (action, *value);
            }
        }
        Ok(best.0)
    }

    /// The bytes of a safetensors file.
    ///
    /// # Errors
    /// A shape of more than [`MAX_METADATA_BYTES`](relive_nn::limits::MAX_METADATA_BYTES) as text.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let text = saved::to_text(self.shape())?;
        Ok(self.params.to_safetensors(&BTreeMap::from([(saved::NAME.to_owned(), text)]))?)
    }

    /// The policy in the bytes of a safetensors file.
    ///
    /// # Errors
    /// A damaged file, or one that is no policy.
    pub fn from_bytes(file: &[u8]) -> Result<Policy> {
        let metadata = safetensors_metadata(file)?;
        let shape = saved::from_text(metadata.get(saved::NAME).map(String::as_str))?;
        let network = QNetwork::of_shape(shape)?;
        let needed = network.parameters() * size_of::<f32>();
        if file.len() < needed {
            let reason = format!("it has {} bytes, but the network it tells of needs {needed}", file.len());
            return Err(RlError::Policy { reason });
        }
        let mut params = network.init(Key::from_seed(0));
        params.set_safetensors(file)?;
        Ok(Policy::new(network, params))
    }

    /// Saves it as a file, which is there whole or not at all. What is no file, as a device or a pipe, is written to as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        files::write_whole(path.as_ref(), &self.to_bytes()?)
    }

    /// The policy in a file.
    ///
    /// # Errors
    /// The file cannot be read, or [holds no policy](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Policy> {
        let path = path.as_ref();
        Policy::from_bytes(&std::fs::read(path).map_err(|error| RlError::file(path, error))?)
    }

    fn expect_like(&self, observation: View<'_>) -> Result<()> {
        let leaves = &self.shape().observations;
        if observation.num_leaves() != leaves.len() {
            let expected = format!("{} leaves", leaves.len());
            return Err(mismatch(String::new(), expected, observation.num_leaves().to_string()));
        }
        for (index, (leaf, bytes)) in leaves.iter().zip(self.network.features.leaf_bytes()).enumerate() {
            let found = observation.leaf_bytes(index).map_or(0, <[u8]>::len);
            if observation.dtype(index) != Some(leaf.dtype) || found != bytes {
                let dtype = observation.dtype(index).map_or("nothing", DType::numpy_name);
                let expected = format!("{bytes} bytes of {}", leaf.dtype.numpy_name());
                return Err(mismatch(leaf.path.clone(), expected, format!("{found} bytes of {dtype}")));
            }
        }
        Ok(())
    }
}

fn mismatch(path: String, expected: String, actual: String) -> RlError {
    RlError::Environment(EnvError::Observation(Box::new(Mismatch { path, expected, actual })))
}
