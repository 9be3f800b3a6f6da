//! Core types as values of options and of configuration keys.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use relive_host::{Format, Rules};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A type with values that can be chosen by name.
pub(crate) trait Choice: Copy + Send + Sync + 'static {
    /// Names, values, and their help.
    const ALL: &'static [(&'static str, Self, &'static str)];

    fn named(wanted: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, ..)| *name == wanted).map(|(_, value, _)| *value)
    }
}

impl Choice for Format {
    const ALL: &'static [(&'static str, Self, &'static str)] = &[
        (
            Format::Relive.name(),
            Format::Relive,
            "Relive's own: chunks are written once and shared by successive checkpoints",
        ),
        (
            Format::Reverb.name(),
            Format::Reverb,
            "dm-reverb's: each checkpoint is a folder that contains everything",
        ),
    ];
}

impl Choice for Rules {
    const ALL: &'static [(&'static str, Self, &'static str)] =
        &[("code", Rules::Given, "The configuration"), ("checkpoint", Rules::Stored, "The checkpoint")];
}

/// Parses the value of an option. The option's help lists the choices.
pub(crate) fn parser<T: Choice>() -> impl TypedValueParser<Value = T> {
    let choices = T::ALL.iter().map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(choices).try_map(|name| T::named(&name).ok_or("no such choice"))
}

/// Reads a key of the configuration; errors are worded like serde's own.
pub(crate) fn key<'de, T: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let name = String::deserialize(deserializer)?;
    T::named(&name).map(Some).ok_or_else(|| {
        let names: Vec<String> = T::ALL.iter().map(|(name, ..)| format!("`{name}`")).collect();
        D::Error::custom(format!("unknown variant `{name}`, expected {}", names.join(" or ")))
    })
}
