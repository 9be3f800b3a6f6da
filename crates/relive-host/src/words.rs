//! The names by which messages refer to settings.

/// The names by which messages refer to settings. A setting has different names on command lines and in functions, and
/// users should recognize the name that they use. The default uses the names of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The address of metrics and the dashboard.
    pub http: &'static str,
    /// The folder of the disk tier.
    pub spill: &'static str,
    /// The bound on memory.
    pub max_bytes: &'static str,
    /// Loads the intact part of a damaged checkpoint.
    pub salvage: &'static str,
    /// Gives the configured rules of tables precedence over the rules of the checkpoint.
    pub given_rules: &'static str,
    /// Adds tables that exist only in the checkpoint, if there is such a setting.
    pub other_tables: Option<&'static str>,
    /// Loads the checkpoint at this location.
    pub load: fn(&str) -> String,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            http: "http",
            spill: "spill",
            max_bytes: "max_bytes",
            salvage: "Checkpoints::salvage",
            given_rules: "Checkpoints::rules(Rules::Given)",
            other_tables: Some("Checkpoints::other_tables"),
            load: |place| format!("Checkpoints::load({place:?})"),
        }
    }
}
