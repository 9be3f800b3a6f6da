//! A network's shape as text, in the files of policies.

use relive_tensor::DType;
use serde::{Deserialize, Serialize};

use super::DqnLoss;
use super::shape::{LeafShape, NetworkShape};
use crate::{Result, RlError};

/// The name of the text in a file's metadata.
pub(super) const NAME: &str = "relive.policy";

/// The version of the text that is written, and the only one that is read.
const VERSION: u32 = 1;

const AGENT: &str = "dqn";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u32,
    agent: String,
    observations: Vec<SavedLeaf>,
    actions: usize,
    hidden: Vec<usize>,
    duelling: bool,
    loss: DqnLoss,
    atoms: usize,
    value_range: [f32; 2],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLeaf {
    path: String,
    dtype: String,
    shape: Vec<u32>,
}

/// Read first, of any version.
#[derive(Deserialize)]
struct Header {
    version: u32,
    agent: String,
}

pub(super) fn to_text(shape: &NetworkShape) -> Result<String> {
    let leaf = |leaf: &LeafShape| SavedLeaf {
        path: leaf.path.clone(),
        dtype: leaf.dtype.name().to_owned(),
        shape: leaf.dims.clone(),
    };
    let saved = Saved {
        version: VERSION,
        agent: AGENT.to_owned(),
        observations: shape.observations.iter().map(leaf).collect(),
        actions: shape.actions,
        hidden: shape.hidden.clone(),
        duelling: shape.duelling,
        loss: shape.loss,
        atoms: shape.atoms,
        value_range: shape.value_range,
    };
    serde_json::to_string(&saved).map_err(|error| refused(&error))
}

pub(super) fn from_text(text: Option<&str>) -> Result<NetworkShape> {
    let text = text.ok_or_else(|| refused(&format_args!("its metadata has nothing under {NAME}")))?;
    let header: Header = serde_json::from_str(text).map_err(|error| refused(&error))?;
    if (header.version, header.agent.as_str()) != (VERSION, AGENT) {
        let Header { version, agent } = header;
        let what =
            format_args!("it is of {agent:?}, version {version}; this reads {AGENT:?}, version {VERSION}");
        return Err(refused(&what));
    }
    let saved: Saved = serde_json::from_str(text).map_err(|error| refused(&error))?;
    let leaf = |leaf: SavedLeaf| {
        let dtype = leaf.dtype.parse::<DType>().map_err(|error| refused(&error))?;
        Ok(LeafShape { path: leaf.path, dtype, dims: leaf.shape })
    };
    let observations = saved.observations.into_iter().map(leaf).collect::<Result<_>>()?;
    let Saved { actions, hidden, duelling, loss, atoms, value_range, .. } = saved;
    Ok(NetworkShape { observations, actions, hidden, duelling, loss, atoms, value_range })
}

fn refused(reason: &dyn std::fmt::Display) -> RlError {
    RlError::Policy { reason: reason.to_string() }
}
