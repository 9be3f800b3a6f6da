//! Builds an engine from a snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{Extension, RestoreError, SelectorKind, Snapshot, TableConfig, TableSnapshot};

use super::builder::EngineBuilder;
use super::differences::{Difference, differences};
use super::shared::Engine;
use crate::catalogue::TableHandle;
use crate::error::BuildError;
use crate::memory::Memory;

/// Selects the rules that a restored table uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rules {
    /// The rules of the snapshot, as with dm-reverb: the table continues as before the restart. The number of shards,
    /// `seed` and `allow_never_sampled` keep their configured values; if the snapshot is from a file of dm-reverb, which
    /// [lacks some rules](Snapshot::lacks_own_rules), so do `max_bytes`, and `WithoutReplacement` where it has `Uniform`.
    #[default]
    Stored,
    /// The rules of the builder. If `max_size` or `max_bytes` is smaller than in the snapshot, the remover evicts the
    /// excess items.
    Given,
}

/// An engine with the tables of a snapshot.
#[derive(Debug)]
pub struct Restored {
    /// The engine.
    pub engine: Engine,
    /// The differences between the builder's and the snapshot's rules, regardless of which rules the tables use now.
    /// With [`Rules::Stored`], a builder's table without a signature is not counted as having a different signature.
    pub differences: Vec<Difference>,
}

impl EngineBuilder {
    /// Builds the engine, in which each table has the state that `snapshot` contains for it. Tables that are not in the
    /// snapshot are empty.
    ///
    /// Keys, priorities, sample counts, insertion times and the counters are preserved. The rate limiters do not apply.
    /// Extensions are notified through [`Extension::on_restore`].
    ///
    /// ```
    /// use relive_engine::{Engine, Rules};
    /// use relive_table::TableConfig;
    ///
    /// let engine = Engine::builder().table(TableConfig::queue("steps", 100)).build()?;
    /// let builder = Engine::builder().table(TableConfig::queue("steps", 50));
    /// let restored = builder.build_from(engine.snapshot(), Rules::Stored)?;
    /// assert_eq!(restored.engine.table("steps")?.config().max_size, 100);
    /// let differences: Vec<_> = restored.differences.iter().map(ToString::to_string).collect();
    /// assert_eq!(differences[0], "table steps: max_size is 100 in the checkpoint and 50 in the configuration");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`build`](Self::build). An error is also returned if the snapshot has a table that the builder
    /// does not have, or contains an impossible state.
    pub fn build_from(self, snapshot: Snapshot, rules: Rules) -> Result<Restored, BuildError> {
        let Snapshot { tables, ledger, lacks_own_rules } = snapshot;
        self.check_known(&tables)?;
        let mut stored: HashMap<String, TableSnapshot> = HashMap::with_capacity(tables.len());
        for table in tables {
            let name = table.config.name.clone();
            if stored.insert(name.clone(), table).is_some() {
                return Err(BuildError::DuplicateName { name });
            }
        }
        let mut found = Vec::new();
        let engine = self.assemble(ledger, |mut config, extensions, rng, memory| {
            let Some(mut state) = stored.remove(&config.name) else {
                return Ok(TableHandle::empty(config, extensions, rng, memory)?);
            };
            let stored = Arc::make_mut(&mut state.config);
            keep_settings(stored, &config);
            if lacks_own_rules {
                keep_own_rules(stored, &config);
            }
            if matches!(rules, Rules::Stored) && config.signature.is_none() {
                // Programs often configure a table without a signature, so a missing signature does not count as a
                // difference.
                config.signature.clone_from(&state.config.signature);
            }
            found.append(&mut differences(&state.config, &config));
            let config = match rules {
                Rules::Stored => TableConfig::clone(&state.config),
                Rules::Given => config,
            };
            restored(config, extensions, state, rng, memory).map_err(BuildError::from)
        })?;
        Ok(Restored { engine, differences: found })
    }

    fn check_known(&self, tables: &[TableSnapshot]) -> Result<(), BuildError> {
        let known: Vec<&str> = self.configs().map(|config| config.name.as_str()).collect();
        match tables.iter().find(|table| !known.contains(&table.config.name.as_str())) {
            Some(table) => {
                let (name, known) = (table.config.name.clone(), known.join(", "));
                Err(BuildError::UnknownTable { name, known })
            }
            None => Ok(()),
        }
    }
}

/// Keeps the settings that are not part of a table's state.
fn keep_settings(stored: &mut TableConfig, given: &TableConfig) {
    stored.shards = given.shards;
    stored.seed = given.seed;
    stored.allow_never_sampled = given.allow_never_sampled;
}

/// Keeps the rules that dm-reverb's files cannot express.
fn keep_own_rules(stored: &mut TableConfig, given: &TableConfig) {
    for (stored, given) in [(&mut stored.sampler, given.sampler), (&mut stored.remover, given.remover)] {
        if *stored == SelectorKind::Uniform && given == SelectorKind::WithoutReplacement {
            *stored = given;
        }
    }
    stored.max_bytes = stored.max_bytes.or(given.max_bytes);
}

fn restored(
    config: TableConfig,
    extensions: Vec<Box<dyn Extension>>,
    state: TableSnapshot,
    rng: Xoshiro256PlusPlus,
    memory: &Arc<Memory>,
) -> Result<TableHandle, RestoreError> {
    // There may be more items than the rules allow: those that were not evicted yet after the rules had changed.
    let (handle, left) = TableHandle::restored(config, extensions, state, rng, memory)?;
    if left > 0 {
        tracing::warn!(
            table = handle.name(),
            items = left,
            "items were evicted: the table's limits are now lower"
        );
    }
    Ok(handle)
}
