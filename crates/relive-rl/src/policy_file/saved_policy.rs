//! Trained policies, for acting and for saving.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use relive_env::{Buffer, EnvironmentSpec, View, ViewMut};
use relive_random::Key;
use relive_tensor::{Shape, Tensor};
use safetensors::tensor::TensorView;
use safetensors::{SafeTensorError, SafeTensors};

use super::described::{Described, refused};
use super::{dtypes, files};
use crate::plan::{Agent, MakeAgent};
use crate::run::Trained;
use crate::{ActStep, Policy, PolicyContext, Purpose, Result, RlError, Weights};

/// The key of the description in a file's metadata.
const NAME: &str = "relive.policy";

/// A trained policy that acts without exploring, unless it was created by [`exploring`](SavedPolicy::exploring).
///
/// Saved policies are safetensors files that contain the weights by name. The metadata key `relive.policy` contains the
/// agent, its settings and the environment's spec, as JSON.
pub struct SavedPolicy {
    described: Described,
    spec: EnvironmentSpec,
    weights: Weights,
    policy: Box<dyn Policy>,
    observations: Buffer,
    actions: Buffer,
    extras: Buffer,
    starts: bool,
}

impl SavedPolicy {
    /// Returns the policy that a run of an agent has trained.
    ///
    /// # Errors
    /// The run trained another agent.
    pub fn of(agent: &dyn Agent, trained: &Trained) -> Result<SavedPolicy> {
        SavedPolicy::with_weights(agent, &trained.spec, &trained.weights)
    }

    /// Returns an agent's policy with these weights, such as those of an [evaluation](crate::run::Evaluated).
    ///
    /// # Errors
    /// The weights are those of another agent.
    pub fn with_weights(agent: &dyn Agent, spec: &EnvironmentSpec, weights: &Weights) -> Result<SavedPolicy> {
        let settings = agent.settings().into_iter().map(|(name, text)| {
            let value = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
            (name, value)
        });
        let described = Described::new(agent.name(), settings.collect(), spec);
        SavedPolicy::new(agent, described, weights.clone(), (Purpose::Evaluation, 0))
    }

    /// Returns a policy with the same weights that explores like a worker that has just begun: it draws its actions,
    /// with this seed. The policy of an agent whose exploration decays over the steps of a run, such as DQN with
    /// `epsilon_decay_steps`, begins this decay.
    ///
    /// # Errors
    /// The agent is unknown to `make`.
    pub fn exploring(&self, make: &MakeAgent<'_>, seed: u64) -> Result<SavedPolicy> {
        let agent = agent_of(&self.described, make)?;
        let described = self.described.clone();
        SavedPolicy::new(agent.as_ref(), described, self.weights.clone(), (Purpose::Training, seed))
    }

    fn new(
        agent: &dyn Agent,
        described: Described,
        weights: Weights,
        (purpose, seed): (Purpose, u64),
    ) -> Result<SavedPolicy> {
        let spec = described.spec()?;
        let keys = [Key::from_seed(seed)];
        let mut policy = agent.policy(&PolicyContext::alone(&spec, purpose, &keys))?;
        policy.load(&weights)?;
        Ok(SavedPolicy {
            observations: Buffer::for_nest(&spec.observations, 1)?,
            actions: Buffer::for_nest(&spec.actions, 1)?,
            extras: Buffer::for_nest(&policy.extras(), 1)?,
            starts: true,
            described,
            spec,
            weights,
            policy,
        })
    }

    /// Returns the name of the policy's agent.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.described.agent
    }

    /// Returns the specs of the policy's observations and actions, in the structure of the environment's.
    #[must_use]
    pub fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    /// Returns a named output of the policy at the last observation, such as DQN's `values` of all actions. Returns
    /// `None` if the policy has no output with this name.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<Tensor> {
        let nest = self.policy.extras();
        let leaf = nest.flatten_with_paths().into_iter().position(|(path, _)| path.to_string() == name)?;
        let (dtype, shape) = nest.leaves().nth(leaf).map(|leaf| (leaf.dtype, leaf.shape.clone()))?;
        let bytes = Bytes::copy_from_slice(self.extras.leaf_bytes(leaf)?);
        Tensor::new(dtype, shape, bytes).ok()
    }

    /// Returns a named output of the policy, like [`extra`](Self::extra), for an observation on which it does not act:
    /// later actions are those of a policy that has not seen this observation. A policy with memory uses its memory of
    /// the episode so far.
    ///
    /// # Errors
    /// The layout of the observation differs from the layout in training, or the policy's own.
    pub fn extra_at(&mut self, name: &str, observation: View<'_>) -> Result<Option<Tensor>> {
        let (state, starts, extras) = (self.policy.save(), self.starts, self.extras.clone());
        let found = self.acted(observation).map(|()| self.extra(name));
        (self.starts, self.extras) = (starts, extras);
        self.policy.restore(&state)?;
        found
    }

    /// Begins an episode with the next observation. A policy with memory clears its memory.
    pub fn begin_episode(&mut self) {
        self.starts = true;
    }

    /// Writes the action for an observation. The observation follows the previous one unless an [episode
    /// begins](Self::begin_episode) with it.
    ///
    /// # Errors
    /// The layout of the observation or of the action differs from the layout in training.
    pub fn act(&mut self, observation: View<'_>, mut action: ViewMut<'_>) -> Result<()> {
        self.acted(observation)?;
        Ok(action.copy_from(self.actions.row(0))?)
    }

    fn acted(&mut self, observation: View<'_>) -> Result<()> {
        self.observations.row_mut(0).copy_from(observation)?;
        let Self { policy, observations, actions, extras, .. } = self;
        let starts = &[self.starts];
        policy.act(&mut ActStep { observations, starts, actions, extras, environments: None })?;
        self.starts = false;
        Ok(())
    }

    /// Serializes the policy as a safetensors file.
    ///
    /// # Errors
    /// The weights have a type that safetensors files do not support.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let views = self.weights.parts().iter().map(|(name, tensor)| {
            let shape = tensor.shape().dims().iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX));
            let dtype = dtypes::to_file(tensor.dtype()).zip(tensor.bytes());
            let (dtype, bytes) = dtype.ok_or_else(|| {
                refused(&format_args!(
                    "{name} has data type {}, which policy files do not support",
                    tensor.dtype().name()
                ))
            })?;
            let view = TensorView::new(dtype, shape.collect(), bytes);
            view.map(|view| (name.as_str(), view)).map_err(|error| refused(&error))
        });
        let views: Vec<_> = views.collect::<Result<_>>()?;
        let text = serde_json::to_string(&self.described).map_err(|error| refused(&error))?;
        let metadata = HashMap::from([(NAME.to_owned(), text)]);
        safetensors::serialize(views, Some(metadata)).map_err(|error| refused(&error))
    }

    /// Parses a safetensors file.
    ///
    /// # Errors
    /// The file is damaged, contains no policy, or belongs to an agent that is unknown to `make`.
    pub fn from_bytes(file: &[u8], make: &MakeAgent<'_>) -> Result<SavedPolicy> {
        let damaged = |error: SafeTensorError| RlError::DamagedPolicy { reason: error.to_string() };
        let tensors = SafeTensors::deserialize(file).map_err(damaged)?;
        let (_, metadata) = SafeTensors::read_metadata(file).map_err(damaged)?;
        let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(NAME));
        let text = text.ok_or_else(|| refused(&format_args!("its metadata has no entry {NAME}")))?;
        let described = Described::from_json(text)?;
        let (agent, weights) = (agent_of(&described, make)?, weights(&tensors)?);
        SavedPolicy::new(agent.as_ref(), described, weights, (Purpose::Evaluation, 0))
    }

    /// Checks that a policy could be [saved](Self::save) to this path now, so that a long run does not fail at its end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn expect_place(path: impl AsRef<Path>) -> Result<()> {
        files::expect_writable(path.as_ref())
    }

    /// Saves the policy as a file, atomically. Anything that is not a regular file, such as a device or a pipe, is
    /// written directly.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        files::write_whole(path.as_ref(), &self.to_bytes()?)
    }

    /// Loads a policy from a file.
    ///
    /// # Errors
    /// The file cannot be read, or [contains no policy](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>, make: &MakeAgent<'_>) -> Result<SavedPolicy> {
        let path = path.as_ref();
        SavedPolicy::from_bytes(&std::fs::read(path).map_err(|error| RlError::file(path, error))?, make)
    }
}

impl fmt::Debug for SavedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedPolicy")
            .field("agent", &self.agent())
            .field("spec", &self.spec)
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

/// Returns the agent that a policy's file describes.
fn agent_of(described: &Described, make: &MakeAgent<'_>) -> Result<Arc<dyn Agent>> {
    let settings = serde_json::Value::Object(described.settings.clone()).to_string();
    let agent = make(&described.agent, &settings)?;
    agent.validate()?;
    Ok(agent)
}

fn weights(file: &SafeTensors<'_>) -> Result<Weights> {
    let mut parts = Vec::new();
    for (name, view) in file.tensors() {
        let dtype = dtypes::from_file(view.dtype());
        let dtype = dtype.ok_or_else(|| {
            refused(&format_args!("its tensor {name} has the unsupported data type {:?}", view.dtype()))
        })?;
        let dims: Vec<u32> = view.shape().iter().map(|dim| u32::try_from(*dim).unwrap_or(u32::MAX)).collect();
        let numbers =
            view.data().chunks_exact(size_of::<f32>()).map(|bytes| bytes.try_into().map(f32::from_le_bytes));
        if !numbers.flatten().all(f32::is_finite) {
            let reason = format!("its tensor {name} has NaN or infinite numbers");
            return Err(RlError::DamagedPolicy { reason });
        }
        let data = Bytes::copy_from_slice(view.data());
        let tensor = Tensor::new(dtype, Shape::from(dims.as_slice()), data);
        parts.push((name, tensor.map_err(|error| refused(&error))?));
    }
    Ok(Weights::new(0, parts))
}
