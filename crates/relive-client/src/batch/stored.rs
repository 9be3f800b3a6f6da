//! Samples of a table of this process, as the table hands them out.

use std::sync::OnceLock;

use relive_engine::TableHandle;
use relive_table::Sampled;

use crate::{Sample, SampleInfo};

/// Samples of one table. Most batches are gathered without making a [`Sample`] of each.
pub(super) struct StoredSamples {
    sampled: Vec<Sampled>,
    table: TableHandle,
    samples: OnceLock<Vec<Sample>>,
}

impl StoredSamples {
    pub(super) fn new(sampled: Vec<Sampled>, table: TableHandle) -> StoredSamples {
        StoredSamples { sampled, table, samples: OnceLock::new() }
    }

    pub(super) fn sampled(&self) -> &[Sampled] {
        &self.sampled
    }

    pub(super) fn table(&self) -> &str {
        self.table.name()
    }

    pub(super) fn samples(&self) -> &[Sample] {
        self.samples.get_or_init(|| {
            self.sampled.iter().map(|sampled| Sample::stored(sampled.clone(), &self.table)).collect()
        })
    }

    pub(super) fn into_samples(self) -> Vec<Sample> {
        let Self { sampled, table, samples } = self;
        samples
            .into_inner()
            .unwrap_or_else(|| sampled.into_iter().map(|sampled| Sample::stored(sampled, &table)).collect())
    }
}

impl From<&Sampled> for SampleInfo {
    fn from(sampled: &Sampled) -> SampleInfo {
        SampleInfo {
            key: sampled.item.key,
            probability: sampled.probability,
            table_size: sampled.table_size,
            priority: sampled.priority,
            times_sampled: sampled.times_sampled,
            rate_limited: sampled.rate_limited,
        }
    }
}
