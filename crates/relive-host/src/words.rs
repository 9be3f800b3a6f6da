//! What settings are called where users make them.

/// The names that messages use for settings, so that their readers find them: those of a command line are not those of
/// a function. The default has the names of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Where metrics and the dashboard are.
    pub http: &'static str,
    /// The folder of the disk tier.
    pub spill: &'static str,
    /// The bound on memory.
    pub max_bytes: &'static str,
    /// Loads what is whole of a damaged checkpoint.
    pub salvage: &'static str,
    /// Lets the given rules of tables count before those of the checkpoint.
    pub given_rules: &'static str,
    /// Takes tables that only the checkpoint has, where there is such a setting.
    pub other_tables: Option<&'static str>,
    /// Loads the checkpoint at this place.
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
