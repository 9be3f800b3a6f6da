//! Agents that are special cases of a family, and are implemented by that family.

/// Implements `Agent` for `$config`. Its method `shared` converts its settings to the settings of its family.
///
/// * `shared_agent!(Config, "name")`: the family learns from a replay table. An optional closure checks the settings
///   that only `$config` has.
/// * `shared_agent!(Config, "name", without_tables)`: the family learns from the rollouts of its own environments.
macro_rules! shared_agent {
    ($config:ident, $name:literal, without_tables) => {
        shared_agent!(@agent $config, $name, {
            fn environments(&self, workers: usize) -> usize {
                self.shared().environments(workers)
            }
        });
    };
    ($config:ident, $name:literal $(, $check:expr)?) => {
        shared_agent!(@agent $config, $name, {
            fn environments(&self, workers: usize) -> usize {
                self.shared().off_policy.environments.max(workers)
            }

            fn tables(&self) -> relive_rl::Result<Vec<relive_table::TableConfig>> {
                Ok(vec![self.shared().off_policy.table()?])
            }

            fn steps_per_item(&self) -> Option<usize> {
                Some(1)
            }
        } $(, $check)?);
    };
    (@agent $config:ident, $name:literal, { $($method:item)* } $(, $check:expr)?) => {
        impl relive_rl::Agent for $config {
            fn name(&self) -> &'static str {
                $name
            }

            fn settings(&self) -> Vec<(String, String)> {
                relive_rl::settings_of(self)
            }

            fn validate(&self) -> relive_rl::Result<()> {
                $($check(self)?;)?
                self.shared().validate()
            }

            $($method)*

            fn policy(&self, context: &relive_rl::PolicyContext<'_>) -> relive_rl::Result<Box<dyn relive_rl::Policy>> {
                self.shared().policy(context)
            }

            fn plan(
                &self,
                crew: &relive_rl::plan::Crew,
            ) -> relive_rl::Result<relive_flow::Flow<relive_rl::plan::Progress>> {
                self.shared().plan(crew)
            }
        }
    };
}

pub(crate) use shared_agent;
