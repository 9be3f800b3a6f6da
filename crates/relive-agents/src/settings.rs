//! Declarations and checks of settings.

use std::fmt::Display;

use relive_rl::{Result, RlError};

/// Declares the settings of an agent, each with its default. They are read by name, and unknown names are errors.
macro_rules! settings {
    (
        $(#[$doc:meta])*
        pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $kind:ty = $default:expr,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[doc = concat!("\nDefault: `", stringify!($default), "`")]
                pub $field: $kind,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

pub(crate) use settings;

/// The maximum number of hidden layers of a network; the deepest networks trained on a CPU have a few dozen.
const MAX_LAYERS: usize = 64;

/// Returns the family of a named bsuite task, such as `catch` for `catch/0`. Returns `None` for other environments.
pub(crate) fn bsuite_family(environment: &str) -> Option<&str> {
    let (family, number) = environment.split_once('/')?;
    number.parse::<u32>().is_ok().then_some(family)
}

/// Checks that a setting is in its range.
pub(crate) fn check(
    name: &'static str,
    got: impl Display,
    is_valid: bool,
    expected: &'static str,
) -> Result<()> {
    if is_valid { Ok(()) } else { Err(RlError::setting(name, got, expected)) }
}

/// Checks that a setting is a positive number.
pub(crate) fn positive(name: &'static str, value: f32) -> Result<()> {
    check(
        name,
        value,
        value > 0.0 && value.is_finite(),
        if value.is_infinite() { "finite" } else { "above 0" },
    )
}

/// Checks that a setting is zero or a positive number.
pub(crate) fn not_negative(name: &'static str, value: f32) -> Result<()> {
    check(name, value, value >= 0.0 && value.is_finite(), "at least 0")
}

/// Checks that a setting is from 0 to 1.
pub(crate) fn fraction(name: &'static str, value: f32) -> Result<()> {
    check(name, value, (0.0..=1.0).contains(&value), "from 0 to 1")
}

/// Checks that a setting is a valid autocorrelation of noise.
pub(crate) fn correlation(value: f32) -> Result<()> {
    check("noise_correlation", value, (0.0..1.0).contains(&value), "at least 0 and less than 1")
}

/// The maximum number of atoms or quantiles of a distribution of returns; 51 to 200 are usual.
const MAX_ATOMS: usize = 4_096;

/// Checks that a distribution can have these atoms over this range.
pub(crate) fn distribution(value_range: [f32; 2], atoms: usize) -> Result<()> {
    check("atoms", atoms, (2..=MAX_ATOMS).contains(&atoms), "from 2 to 4096")?;
    let [least, most] = value_range;
    let is_range = least.is_finite() && most.is_finite() && least < most;
    check("value_range", format_args!("[{least}, {most}]"), is_range, "an increasing range")
}

/// Checks that a setting is at least 1.
pub(crate) fn whole(name: &'static str, value: usize) -> Result<()> {
    check(name, value, value >= 1, "at least 1")
}

/// The maximum number of environments of an agent, each of which uses memory before the first step.
const MAX_ENVIRONMENTS: usize = 1 << 16;

/// Checks that an agent can have this number of environments.
pub(crate) fn environments(count: usize) -> Result<()> {
    check("num_envs", count, (1..=MAX_ENVIRONMENTS).contains(&count), "from 1 to 65536")
}

/// Checks that these are valid sizes of hidden layers.
pub(crate) fn layers(hidden: &[usize]) -> Result<()> {
    for size in hidden {
        check("hidden", size, *size >= 1, "a list of sizes of at least 1")?;
    }
    check("the number of hidden layers", hidden.len(), hidden.len() <= MAX_LAYERS, "at most 64")
}

/// Checks that a network can have these inputs, hidden layers and outputs.
pub(crate) fn fits(inputs: usize, hidden: &[usize], outputs: usize) -> Result<()> {
    check("the size of an observation", inputs, inputs >= 1, "at least 1")?;
    check("the number of outputs of a network", outputs, outputs >= 1, "at least 1")?;
    let mut widest = inputs.saturating_add(1);
    let mut total = 0_usize;
    for size in hidden.iter().copied().chain([outputs]) {
        total = size.saturating_mul(widest).saturating_add(total);
        widest = size.saturating_add(1);
    }
    let most = relive_nn::limits::MAX_PARAMETERS;
    check("the number of parameters", total, total <= most, "at most 2**28; use smaller layers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_networks_are_refused() {
        let refused =
            |inputs, hidden: &[usize], outputs| fits(inputs, hidden, outputs).unwrap_err().to_string();
        assert!(fits(4, &[64, 64], 2).is_ok());
        assert!(refused(4, &[1 << 20; 2], 2).contains("at most 2**28"));
        assert!(refused(4, &[usize::MAX], 2).contains("the number of parameters"));
        assert!(refused(0, &[8], 2).contains("the size of an observation is 0"));
        assert!(refused(4, &[8], 0).contains("the number of outputs of a network is 0"));
    }
}
