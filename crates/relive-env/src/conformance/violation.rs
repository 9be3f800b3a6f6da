//! Violations of the contract.

/// A rule that an environment breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// The place where the environment breaks the rule, and its actual behavior.
    pub detail: String,
}

impl Violation {
    pub(super) fn new(rule: &'static str, detail: impl std::fmt::Display) -> Self {
        Self { rule, detail: detail.to_string() }
    }

    pub(super) fn unless(kept: bool, rule: &'static str, detail: impl std::fmt::Display) -> Result<(), Self> {
        if kept { Ok(()) } else { Err(Self::new(rule, detail)) }
    }
}
