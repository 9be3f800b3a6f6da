//! What agents share that learn from transitions in a replay table.

use relive_env::ArraySpec;
use relive_flow::{Flow, Order, Weight};
use relive_rl::adders::{Adder, TransitionAdder};
use relive_rl::plan::{Client, Crew, Progress, ReplayTable, SampleBatch};
use relive_rl::{Result, Saveable};
use relive_table::TableConfig;
use relive_tensor::Nest;

use crate::settings::{check, share, whole};

/// The table that transitions are in.
pub(crate) const TABLE: &str = "replay";

/// Most samples that a client asks a table for at once.
const MAX_BATCH_SIZE: usize = 1 << 20;

/// Most items that a table has.
const MAX_REPLAY_SIZE: u64 = 2_147_483_647;

/// The settings of acting into a table and learning from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OffPolicy {
    pub(crate) batch_size: usize,
    pub(crate) samples_per_insert: f64,
    pub(crate) n_step: usize,
    pub(crate) discount: f32,
    pub(crate) min_replay_size: usize,
    pub(crate) max_replay_size: u64,
}

impl OffPolicy {
    /// Whether all are within their ranges.
    pub(crate) fn validate(&self) -> Result<()> {
        let range = 1..=MAX_BATCH_SIZE;
        check("batch_size", self.batch_size, range.contains(&self.batch_size), "from 1 to 1048576")?;
        whole("n_step", self.n_step)?;
        whole("min_replay_size", self.min_replay_size)?;
        let ratio = self.samples_per_insert;
        check("samples_per_insert", ratio, ratio > 0.0 && ratio.is_finite(), "above 0")?;
        let fits = u64::try_from(self.min_replay_size).is_ok_and(|least| least <= self.max_replay_size);
        check("max_replay_size", self.max_replay_size, fits, "at least min_replay_size")?;
        let most = self.max_replay_size <= MAX_REPLAY_SIZE;
        check("max_replay_size", self.max_replay_size, most, "at most 2147483647")?;
        share("discount", self.discount)
    }

    /// The table of transitions, which is sampled uniformly.
    pub(crate) fn table(&self) -> Result<TableConfig> {
        self.table_for(self.n_step)
    }

    /// The table where a step may insert so many items at once.
    pub(crate) fn table_for(&self, burst: usize) -> Result<TableConfig> {
        let rules = ReplayTable {
            name: TABLE,
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            min_size: self.min_replay_size,
            max_size: self.max_replay_size,
            burst,
        };
        rules.config()
    }

    /// Batches of the table, as its rate limiter allows them.
    pub(crate) fn batches(&self, crew: &Crew) -> Result<Flow<SampleBatch>> {
        crew.replay(TABLE, self.batch_size)
    }

    /// Learns whenever it can, and otherwise acts, a step at a time, into a table of transitions.
    pub(crate) fn plan(&self, crew: &Crew, learning: Flow<Progress>) -> Result<Flow<Progress>> {
        let (spec, n_step, discount) = (crew.spec().clone(), self.n_step, self.discount);
        self.plan_into(crew, learning, move |client| {
            TransitionAdder::new(client, TABLE, &spec, n_step, discount)
        })
    }

    /// As [`plan`](Self::plan), for a policy that writes such extras.
    pub(crate) fn plan_with_extras(
        &self,
        crew: &Crew,
        learning: Flow<Progress>,
        extras: Nest<ArraySpec>,
    ) -> Result<Flow<Progress>> {
        let (spec, n_step, discount) = (crew.spec().clone(), self.n_step, self.discount);
        self.plan_into(crew, learning, move |client| {
            Ok(TransitionAdder::new(client, TABLE, &spec, n_step, discount)?.with_extras(&extras))
        })
    }

    /// As [`plan`](Self::plan), with adders that `make` makes.
    pub(crate) fn plan_into<A: Adder + Saveable + 'static>(
        &self,
        crew: &Crew,
        learning: Flow<Progress>,
        make: impl Fn(&Client) -> Result<A> + Send + Sync + 'static,
    ) -> Result<Flow<Progress>> {
        let acting = crew.store(crew.rollouts(1)?, make).acting()?;
        Ok(Flow::union([learning, acting], Order::weighted([Weight::All, Weight::UpTo(1)])))
    }
}
