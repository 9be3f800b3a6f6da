//! The description of a policy in its file.

use std::collections::BTreeMap;

use relive_env::{ArraySpec, Domain, EnvironmentSpec};
use relive_tensor::{DType, Nest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::MAX_LEAVES;
use crate::{Result, RlError};

/// The version of the description, which is the only one supported.
const VERSION: u32 = 4;

/// Everything about a policy except its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    version: u32,
    pub(super) agent: String,
    pub(super) settings: Map<String, Value>,
    observations: NestText,
    actions: NestText,
}

/// The structure of observations or actions: a [`Nest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NestText {
    Leaf(LeafText),
    List(Vec<NestText>),
    Tuple(Vec<NestText>),
    Dict(BTreeMap<String, NestText>),
    NamedTuple { name: String, fields: Vec<(String, NestText)> },
    None,
}

/// A leaf of observations or actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafText {
    dtype: String,
    shape: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_values: Option<u32>,
    /// The minimum and maximum values, if there are bounds; `None` means infinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bounds: Option<[Vec<Option<f64>>; 2]>,
}

impl Described {
    pub(super) fn new(agent: &str, settings: Map<String, Value>, spec: &EnvironmentSpec) -> Described {
        Described {
            version: VERSION,
            agent: agent.to_owned(),
            settings,
            observations: NestText::of(&spec.observations),
            actions: NestText::of(&spec.actions),
        }
    }

    /// Parses the description. Its version is checked before anything else is read.
    pub(super) fn from_json(text: &str) -> Result<Described> {
        let value: Value = serde_json::from_str(text).map_err(|error| refused(&error))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                serde_json::from_value(value).map_err(|error| refused(&error))
            }
            Some(version) => Err(refused(&format_args!(
                "it has version {version}, but this program reads version {VERSION}"
            ))),
            None => Err(refused(&"its description has no version")),
        }
    }

    pub(super) fn spec(&self) -> Result<EnvironmentSpec> {
        Ok(EnvironmentSpec::new(nest(&self.observations)?, nest(&self.actions)?))
    }
}

/// Returns the specs, each with its path as its name.
fn nest(text: &NestText) -> Result<Nest<ArraySpec>> {
    let nest = text.nest()?;
    let leaves = nest.flatten_with_paths();
    if leaves.len() > MAX_LEAVES {
        return Err(refused(&format_args!("it has {} leaves; the limit is {MAX_LEAVES}", leaves.len())));
    }
    let named = leaves.into_iter().map(|(path, spec)| ArraySpec { name: path.to_string(), ..spec.clone() });
    nest.unflatten(named).map_err(|error| refused(&error))
}

impl NestText {
    fn of(nest: &Nest<ArraySpec>) -> NestText {
        let all = |items: &[Nest<ArraySpec>]| items.iter().map(NestText::of).collect();
        let field = |(key, item): (&String, &Nest<ArraySpec>)| (key.clone(), NestText::of(item));
        match nest {
            Nest::Leaf(spec) => NestText::Leaf(LeafText::of(spec)),
            Nest::List(items) => NestText::List(all(items)),
            Nest::Tuple(items) => NestText::Tuple(all(items)),
            Nest::Dict(items) => NestText::Dict(items.iter().map(field).collect()),
            Nest::NamedTuple { name, fields } => {
                let fields = fields.iter().map(|(key, item)| field((key, item)));
                NestText::NamedTuple { name: name.clone(), fields: fields.collect() }
            }
            Nest::None => NestText::None,
        }
    }

    fn nest(&self) -> Result<Nest<ArraySpec>> {
        let all = |items: &[NestText]| items.iter().map(NestText::nest).collect::<Result<_>>();
        let field = |(key, item): (&String, &NestText)| Ok((key.clone(), item.nest()?));
        Ok(match self {
            NestText::Leaf(leaf) => Nest::Leaf(leaf.spec()?),
            NestText::List(items) => Nest::List(all(items)?),
            NestText::Tuple(items) => Nest::Tuple(all(items)?),
            NestText::Dict(items) => Nest::Dict(items.iter().map(field).collect::<Result<_>>()?),
            NestText::NamedTuple { name, fields } => {
                let fields = fields.iter().map(|(key, item)| field((key, item)));
                Nest::NamedTuple { name: name.clone(), fields: fields.collect::<Result<_>>()? }
            }
            NestText::None => Nest::None,
        })
    }
}

impl LeafText {
    fn of(spec: &ArraySpec) -> LeafText {
        let finite =
            |bounds: &[f64]| bounds.iter().map(|bound| Some(*bound).filter(|b| b.is_finite())).collect();
        LeafText {
            dtype: spec.dtype.name().to_owned(),
            shape: spec.shape.dims().to_vec(),
            num_values: spec.num_values(),
            bounds: match &spec.domain {
                Domain::Bounded { minimum, maximum } => Some([finite(minimum), finite(maximum)]),
                Domain::Any | Domain::Discrete(_) => None,
            },
        }
    }

    fn spec(&self) -> Result<ArraySpec> {
        let dtype = self.dtype.parse::<DType>().map_err(|error| refused(&error))?;
        let spec = ArraySpec::new("", dtype, self.shape.as_slice());
        let spec = match (self.num_values, &self.bounds) {
            (Some(count), _) => ArraySpec { domain: Domain::Discrete(count), ..spec },
            (None, Some([low, high])) => {
                let or = |bounds: &[Option<f64>], open: f64| {
                    bounds.iter().map(|bound| bound.unwrap_or(open)).collect()
                };
                spec.bounded_each(or(low, f64::NEG_INFINITY), or(high, f64::INFINITY))
            }
            (None, None) => spec,
        };
        spec.validate()?;
        Ok(spec)
    }
}

pub(super) fn refused(reason: &dyn std::fmt::Display) -> RlError {
    RlError::Policy { reason: reason.to_string() }
}
