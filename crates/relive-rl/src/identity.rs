//! The identity of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use relive_env::{ArraySpec, EnvironmentSpec};
use relive_tensor::Nest;
use serde::{Deserialize, Serialize};

use crate::{Result, RlError};

/// The version of the serialized form.
const VERSION: u32 = 5;

/// The values, in JSON, of settings that change nothing.
const OFF: [&str; 4] = ["0", "0.0", "false", "null"];

const ENVIRONMENT: &str = "environment";
const SEED: &str = "seed";

/// The fields in which runs with the same kind of learner may differ.
const OF_ONE_RUN: [&str; 2] = [ENVIRONMENT, SEED];

/// The identity of a run: only a run with an equal identity may resume it. The identity does not include the run's
/// length, its workers or its reports, nor the location of the data that it learns from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    version: u32,
    pub(crate) agent: String,
    pub(crate) environment: String,
    observations: String,
    actions: String,
    pub(crate) seed: u64,
    settings: BTreeMap<String, String>,
    /// The recorded episodes that the run learns from, if it does not act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<DataDigest>,
}

/// Recorded episodes, identified by their content: equal episodes have the same digest wherever and however they are
/// stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataDigest {
    pub(crate) episodes: u64,
    pub(crate) steps: u64,
    /// Checksums of the numbers, by name.
    pub(crate) checksums: BTreeMap<String, u32>,
}

/// The names of both sides of a comparison in its error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    /// The place of the saved run.
    pub(crate) place: &'a str,
    /// The side with the saved values.
    pub(crate) saved: &'static str,
    /// The side with the requested values.
    pub(crate) asked: &'static str,
    /// What the user can do.
    pub(crate) advice: &'static str,
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
            data: None,
        }
    }

    /// Sets the recorded episodes that the run learns from.
    #[must_use]
    pub(crate) fn with_data(self, data: Option<DataDigest>) -> Identity {
        Identity { data, ..self }
    }

    /// # Errors
    /// The identity cannot be serialized.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| RlError::state(WHAT, error))
    }

    /// # Errors
    /// The bytes have a different version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Identity> {
        let version = version_of(bytes).map_err(|error| RlError::state(WHAT, error))?;
        if version != VERSION {
            let reason = format_args!(
                "it has version {version}, not {VERSION}: another version of Relive saved the run; resume it with that version"
            );
            return Err(RlError::state(WHAT, reason));
        }
        serde_json::from_slice(bytes).map_err(|error| RlError::state(WHAT, error))
    }

    /// Checks that a run with the identity `asked` may resume this run.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) with all differences.
    pub(crate) fn expect(&self, asked: &Identity, comparison: Comparison<'_>) -> Result<()> {
        let mut differences = comparison.differences(self.beside(asked));
        // The settings of different agents are not comparable.
        let of_both = self.settings.keys().chain(asked.settings.keys());
        let names: BTreeSet<&String> = of_both.filter(|_| self.agent == asked.agent).collect();
        // A setting that an earlier version did not have changes nothing while it is off.
        let is_off = |name: &&String| {
            !self.settings.contains_key(*name)
                && asked.settings.get(*name).is_some_and(|value| OFF.contains(&value.as_str()))
        };
        let settings = names
            .into_iter()
            .filter(|name| !is_off(name))
            .map(|name| (name.as_str(), self.settings.get(name).cloned(), asked.settings.get(name).cloned()));
        differences.extend(comparison.differences(settings));
        differences.extend(comparison.differences(data_fields(self.data.as_ref(), asked.data.as_ref())));
        comparison.refuse(&differences)
    }

    /// Checks that a run with the identity `asked` may begin with the learner of this run.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) with the differences: another agent, or other observations or actions.
    pub(crate) fn expect_alike(&self, asked: &Identity, comparison: Comparison<'_>) -> Result<()> {
        let of_learner = self.beside(asked).filter(|(name, ..)| !OF_ONE_RUN.contains(name));
        comparison.refuse(&comparison.differences(of_learner))
    }

    /// Returns the settings of the agent, as a JSON object.
    pub(crate) fn settings_json(&self) -> String {
        let fields = self.settings.iter().map(|(name, text)| {
            let value = serde_json::from_str(text).unwrap_or(serde_json::Value::String(text.clone()));
            (name.clone(), value)
        });
        serde_json::Value::Object(fields.collect()).to_string()
    }

    /// Returns the fields of both identities, by name.
    fn beside(
        &self,
        asked: &Identity,
    ) -> impl Iterator<Item = (&'static str, Option<String>, Option<String>)> + use<> {
        let fields = self.fields().into_iter().zip(asked.fields());
        fields.map(|((name, saved), (_, asked))| (name, Some(saved), Some(asked)))
    }

    fn fields(&self) -> [(&'static str, String); 5] {
        [
            ("agent", self.agent.clone()),
            (ENVIRONMENT, self.environment.clone()),
            ("observation spec", self.observations.clone()),
            ("action spec", self.actions.clone()),
            (SEED, self.seed.to_string()),
        ]
    }
}

impl Comparison<'_> {
    /// Describes those of the named values that differ.
    pub(crate) fn differences<N: Display>(
        &self,
        values: impl IntoIterator<Item = (N, Option<String>, Option<String>)>,
    ) -> Vec<String> {
        let Comparison { saved: saved_side, asked: asked_side, .. } = self;
        let differing = values.into_iter().filter(|(_, saved, asked)| saved != asked);
        let described = differing.map(|(name, saved, asked)| {
            let [saved, asked] = [saved, asked].map(|value| value.unwrap_or_else(|| "none".to_owned()));
            format!("{name}: {saved_side} has {saved}, {asked_side} has {asked}")
        });
        described.collect()
    }

    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) if there are differences.
    pub(crate) fn refuse(&self, differences: &[String]) -> Result<()> {
        if differences.is_empty() {
            return Ok(());
        }
        let (place, advice) = (self.place.to_owned(), self.advice);
        Err(RlError::OtherRun { place, differences: differences.join("; "), advice })
    }
}

/// Returns the values of both digests to compare, by name: the checksums only if the numbers of episodes and steps are
/// equal, because otherwise all of them differ.
fn data_fields(
    saved: Option<&DataDigest>,
    asked: Option<&DataDigest>,
) -> Vec<(String, Option<String>, Option<String>)> {
    let counts = |digest: &DataDigest| format!("{} steps in {} episodes", digest.steps, digest.episodes);
    let [saved_counts, asked_counts] = [saved, asked].map(|digest| digest.map(counts));
    let (Some(saved), Some(asked), true) = (saved, asked, saved_counts == asked_counts) else {
        return vec![("data".to_owned(), saved_counts, asked_counts)];
    };
    let names: BTreeSet<&String> = saved.checksums.keys().chain(asked.checksums.keys()).collect();
    let checksum = |digest: &DataDigest, name: &str| {
        digest.checksums.get(name).map(|sum| format!("numbers with the checksum {sum:08x}"))
    };
    let fields = names.into_iter();
    fields.map(|name| (format!("{name} of the data"), checksum(saved, name), checksum(asked, name))).collect()
}

const WHAT: &str = "the identity of a run";

/// Returns the version of a saved document in JSON. It is read before the rest, because other versions may have other
/// fields.
pub(crate) fn version_of(json: &[u8]) -> serde_json::Result<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    serde_json::from_slice(json).map(|Versioned { version }| version)
}

fn describe(nest: &Nest<ArraySpec>) -> String {
    let leaves = nest
        .flatten_with_paths()
        .into_iter()
        .map(|(path, leaf)| format!("{path} {}{:?}", leaf.dtype, leaf.shape.dims()).trim_start().to_owned());
    leaves.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use relive_tensor::DType;

    use super::*;

    const COMPARISON: Comparison<'_> =
        Comparison { place: "there", saved: "the checkpoint", asked: "this run", advice: "use the same" };

    fn identity(seed: u64) -> Identity {
        let leaf = || ArraySpec::new("", DType::Float32, [1]);
        Identity::new(("none", Vec::new()), "catch/0", &EnvironmentSpec::new(leaf(), leaf()), seed)
    }

    fn digest(steps: u64, rewards: u32) -> Option<DataDigest> {
        let checksums = [("actions", 7), ("rewards", rewards)].map(|(name, sum)| (name.to_owned(), sum));
        Some(DataDigest { episodes: 2, steps, checksums: checksums.into() })
    }

    fn error(saved: Option<DataDigest>, asked: Option<DataDigest>) -> String {
        let [saved, asked] = [saved, asked].map(|data| identity(1).with_data(data));
        saved.expect(&asked, COMPARISON).unwrap_err().to_string()
    }

    #[test]
    fn the_version_is_checked_before_the_rest() {
        let later = format!(r#"{{"version": {}, "new": 1}}"#, VERSION + 1);
        let error = Identity::from_bytes(later.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("it has version 6, not 5: another version of Relive saved the run"),
            "{error}"
        );
    }

    #[test]
    fn differences_name_both_values_and_advice() {
        let error = identity(1).expect(&identity(2), COMPARISON).unwrap_err().to_string();
        assert_eq!(
            error,
            "there has a different run: seed: the checkpoint has 1, this run has 2; use the same"
        );
    }

    #[test]
    fn a_setting_that_is_new_and_off_is_no_difference() {
        let with = |settings: &[(&str, &str)]| Identity {
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..identity(1)
        };
        let saved = with(&[("epsilon", "0.1")]);
        saved.expect(&with(&[("epsilon", "0.1"), ("decay", "0")]), COMPARISON).unwrap();
        let error = saved.expect(&with(&[("epsilon", "0.1"), ("decay", "7")]), COMPARISON).unwrap_err();
        assert!(error.to_string().contains("decay: the checkpoint has none, this run has 7"), "{error}");
        assert!(saved.expect(&with(&[("epsilon", "0")]), COMPARISON).is_err(), "it was on");
    }

    #[test]
    fn equal_data_may_resume_and_other_data_is_named() {
        let of = |data| identity(1).with_data(data);
        of(digest(9, 3)).expect(&of(digest(9, 3)), COMPARISON).unwrap();
        let lengths = error(digest(9, 3), digest(8, 4));
        assert!(
            lengths.contains(
                "data: the checkpoint has 9 steps in 2 episodes, this run has 8 steps in 2 episodes;"
            ),
            "{lengths}"
        );
        let numbers = error(digest(9, 3), digest(9, 4));
        assert!(
            numbers.contains(
                "different run: rewards of the data: the checkpoint has numbers with the checksum 00000003, this run \
                 has numbers with the checksum 00000004;"
            ),
            "{numbers}"
        );
        let acting = error(None, digest(9, 3));
        assert!(acting.contains("data: the checkpoint has none, this run has 9 steps"), "{acting}");
    }

    #[test]
    fn an_identity_without_data_keeps_its_serialized_form() {
        let bytes = identity(1).to_bytes().unwrap();
        assert!(!String::from_utf8(bytes.clone()).unwrap().contains("data"));
        assert_eq!(Identity::from_bytes(&bytes).unwrap(), identity(1));
        let with_data = identity(1).with_data(digest(9, 3));
        assert_eq!(Identity::from_bytes(&with_data.to_bytes().unwrap()).unwrap(), with_data);
    }
}
