//! The experience of a Python agent.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relive_agents::{OffPolicy, REPLAY_TABLE};
use relive_env::{ArraySpec, EnvironmentSpec};
use relive_rl::Result;
use relive_rl::adders::{EndOfEpisode, SequenceAdder, TransitionAdder};
use relive_rl::plan::Client;
use relive_table::{SelectorKind, TableConfig};
use relive_tensor::Nest;

/// The source of an agent's experience.
#[derive(Debug, Clone)]
pub(super) enum Experience {
    /// The agent's latest steps, in fragments of `steps` steps.
    Rollouts { steps: usize },
    /// A replay table.
    Replay(Replay),
    /// Batches that the caller passes to the run.
    Given,
}

/// A replay table, and its contents.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    off_policy: OffPolicy,
    /// The exponent of priorities; `None` if all items are equal.
    priority_exponent: Option<f64>,
    /// The length of sequences and the distance between their starts; `None` for transitions.
    sequences: Option<(usize, usize)>,
}

impl Experience {
    /// Reads the fields of `_own.AgentBridge.experience`.
    pub(super) fn from_python(fields: &Bound<'_, PyDict>) -> PyResult<Experience> {
        if get::<bool>(fields, "is_given")? {
            return Ok(Experience::Given);
        }
        if get::<Option<usize>>(fields, "steps")?.is_some() {
            return Ok(Experience::Rollouts { steps: get(fields, "steps")? });
        }
        let sequences: Option<usize> = get(fields, "length")?;
        Ok(Experience::Replay(Replay {
            off_policy: OffPolicy {
                batch_size: get(fields, "batch_size")?,
                samples_per_insert: get(fields, "samples_per_insert")?,
                n_step: get(fields, "n_step")?,
                discount: get(fields, "discount")?,
                min_replay_size: get(fields, "min_size")?,
                max_replay_size: get(fields, "max_size")?,
                shards: 1,
                environments: get(fields, "environments")?,
            },
            priority_exponent: get(fields, "priority_exponent")?,
            sequences: sequences
                .map(|length| Ok::<_, PyErr>((length, get(fields, "period")?)))
                .transpose()?,
        }))
    }

    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Experience::Rollouts { .. } | Experience::Given => Ok(()),
            Experience::Replay(replay) => replay.off_policy.validate(),
        }
    }

    pub(super) fn tables(&self) -> Result<Vec<TableConfig>> {
        match self {
            Experience::Rollouts { .. } | Experience::Given => Ok(Vec::new()),
            Experience::Replay(replay) => Ok(vec![replay.table()?]),
        }
    }
}

impl Replay {
    pub(super) fn off_policy(&self) -> &OffPolicy {
        &self.off_policy
    }

    /// Returns the number of rows of a sequence, or `None` for transitions.
    pub(super) fn sequence_rows(&self) -> Option<u32> {
        self.sequences.map(|(length, _)| u32::try_from(length).unwrap_or(u32::MAX))
    }

    fn table(&self) -> Result<TableConfig> {
        // A step may complete all open sequences of an environment, or all transitions of its last steps.
        let table =
            self.off_policy.table_for(if self.sequences.is_some() { 2 } else { self.off_policy.n_step })?;
        Ok(match self.priority_exponent {
            Some(exponent) => table.sampler(SelectorKind::Prioritized { exponent }),
            None => table,
        })
    }

    /// Creates adders of sequences for an environment and a policy with the given extras.
    pub(super) fn sequences(
        &self,
        spec: &EnvironmentSpec,
        extras: &Nest<ArraySpec>,
    ) -> impl Fn(&Client, &'static str) -> Result<SequenceAdder> + Send + Sync + 'static {
        let (spec, extras) = (spec.clone(), (!extras.is_empty()).then(|| extras.clone()));
        let (length, period) = self.sequences.unwrap_or((1, 1));
        move |client, table| {
            let adder = SequenceAdder::new(client, table, &spec, extras.as_ref(), length, period)?;
            Ok(adder.end_of_episode(EndOfEpisode::Truncate))
        }
    }

    /// Creates adders of transitions for an environment and a policy with the given extras.
    pub(super) fn transitions(
        &self,
        spec: &EnvironmentSpec,
        extras: &Nest<ArraySpec>,
    ) -> impl Fn(&Client, &'static str) -> Result<TransitionAdder> + Send + Sync + 'static {
        let (spec, extras, off_policy) = (spec.clone(), extras.clone(), self.off_policy);
        move |client, table| {
            let adder = TransitionAdder::new(client, table, &spec, off_policy.n_step, off_policy.discount)?;
            Ok(if extras.is_empty() { adder } else { adder.with_extras(&extras) })
        }
    }
}

/// The name of the replay table.
pub(super) const TABLE: &str = REPLAY_TABLE;

fn get<'py, T: FromPyObjectOwned<'py>>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value = fields.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    value.extract().map_err(Into::into)
}
