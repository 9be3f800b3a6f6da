//! The identity of a run.

use std::collections::{BTreeMap, BTreeSet};

use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;
use serde::{Deserialize, Serialize};

use crate::{Result, RlError};

/// The version of the serialized form.
const VERSION: u32 = 4;

/// The identity of a run: only a run with an equal identity may resume it. The identity does not include the run's
/// length, its workers or its reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    version: u32,
    pub(crate) agent: String,
    pub(crate) environment: String,
    observations: String,
    actions: String,
    pub(crate) seed: u64,
    settings: BTreeMap<String, String>,
}

impl Identity {
    /// Creates the identity from an agent's name and settings.
    pub(crate) fn new(
        (agent, settings): (&str, Vec<(String, String)>),
        environment: &str,
        spec: &EnvironmentSpec,
        seed: u64,
    ) -> Identity {
        Identity {
            version: VERSION,
            agent: agent.to_owned(),
            environment: environment.to_owned(),
            observations: describe(&spec.observations),
            actions: describe(&spec.actions),
            seed,
            settings: settings.into_iter().collect(),
        }
    }

    /// # Errors
    /// The identity cannot be serialized.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| RlError::state(WHAT, error))
    }

    /// # Errors
    /// The bytes have a different version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Identity> {
        let identity: Identity =
            serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error))?;
        match identity.version {
            VERSION => Ok(identity),
            version => Err(RlError::state(WHAT, format_args!("it has version {version}, not {VERSION}"))),
        }
    }

    /// Checks that a run with the identity `asked` may resume this run, which is at `place`.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) with all differences.
    pub(crate) fn expect(&self, asked: &Identity, place: &str, advice: &'static str) -> Result<()> {
        let mut differences = Vec::new();
        let mut compare = |name: &str, saved: Option<String>, asked: Option<String>| {
            if saved != asked {
                let [saved, asked] =
                    [saved, asked].map(|value| value.unwrap_or_else(|| "nothing".to_owned()));
                differences.push(format!("{name} is {saved} there, but {asked} was requested"));
            }
        };
        for ((name, saved), (_, asked)) in self.fields().into_iter().zip(asked.fields()) {
            compare(name, Some(saved), Some(asked));
        }
        // The settings of different agents are not comparable.
        let of_both = self.settings.keys().chain(asked.settings.keys());
        let names: BTreeSet<&String> = of_both.filter(|_| self.agent == asked.agent).collect();
        for name in names {
            compare(name, self.settings.get(name).cloned(), asked.settings.get(name).cloned());
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(RlError::OtherRun { place: place.to_owned(), differences: differences.join("; "), advice })
    }

    /// Returns the settings of the agent, as a JSON object.
    pub(crate) fn settings_json(&self) -> String {
        let fields = self.settings.iter().map(|(name, text)| {
            let value = serde_json::from_str(text).unwrap_or(serde_json::Value::String(text.clone()));
            (name.clone(), value)
        });
        serde_json::Value::Object(fields.collect()).to_string()
    }

    fn fields(&self) -> [(&'static str, String); 5] {
        [
            ("agent", self.agent.clone()),
            ("environment", self.environment.clone()),
            ("observation spec", self.observations.clone()),
            ("action spec", self.actions.clone()),
            ("seed", self.seed.to_string()),
        ]
    }
}

const WHAT: &str = "the identity of a run";

fn describe(nest: &Nest<ArraySpec>) -> String {
    let leaves = nest
        .flatten_with_paths()
        .into_iter()
        .map(|(path, leaf)| format!("{path} {}{:?}", leaf.dtype, leaf.shape.dims()).trim_start().to_owned());
    leaves.collect::<Vec<_>>().join(", ")
}
