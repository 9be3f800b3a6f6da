//! The parts shared by agents that learn from transitions in a replay table.

use std::path::PathBuf;

use relive_env::ArraySpec;
use relive_flow::{Flow, Order, Weight};
use relive_rl::adders::{Adder, TransitionAdder};
use relive_rl::plan::{Client, Crew, Progress, ReplayTable, SampleBatch, for_recorded_data};
use relive_rl::{Learnt, Result, Saveable};
use relive_table::{MAX_TABLE_SIZE, TableConfig};
use relive_tensor::Nest;

use crate::settings::{check, environments, fraction, settings, whole};

/// The name of the table; if there are several, the prefix of their names.
pub const TABLE: &str = "replay";

/// The maximum number of samples that a client requests from a table at once.
const MAX_BATCH_SIZE: usize = 1 << 20;

/// The maximum number of steps that a transition spans; in practice, at most a few dozen.
const MAX_STEPS: usize = 1 << 16;

/// The maximum number of tables that share the items. A batch contains samples from each of them.
const MAX_SHARDS: usize = 64;

/// How many items a table may be ahead of the other tables, in addition to the items of a step. This also applies to
/// small replay tables. Each actor increases the lead by at most one item.
const ITEMS_AHEAD: usize = 8;

/// The settings of agents that write their experience to a table and learn from it, and the resulting plans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffPolicy {
    /// The number of items in a batch.
    pub batch_size: usize,
    /// How many times each item is sampled, on average.
    pub samples_per_insert: f64,
    /// The number of steps that a transition spans.
    pub n_step: usize,
    /// The agent's discount γ.
    pub discount: f32,
    /// The number of items in the table before learning starts.
    pub min_replay_size: usize,
    /// The capacity in items; the oldest items are evicted.
    pub max_replay_size: u64,
    /// The number of tables that share the items evenly; each contributes its part of a batch.
    pub shards: usize,
    /// The number of environments of all workers together, if there are fewer workers.
    pub environments: usize,
}

/// Returns the settings that an agent's settings share with those of all off-policy agents, for one table.
macro_rules! off_policy {
    ($settings:expr) => {
        $crate::off_policy::OffPolicy {
            batch_size: $settings.batch_size,
            samples_per_insert: $settings.samples_per_insert,
            n_step: $settings.n_step,
            discount: $settings.discount,
            min_replay_size: $settings.min_replay_size,
            max_replay_size: $settings.max_replay_size,
            shards: 1,
            environments: $settings.num_envs,
        }
    };
}

pub(crate) use off_policy;

/// The lowest priority of a learned item, which keeps an item without an error in the replay (Schaul et al. 2016, ε in
/// section 3.3). An item with the priority 0 is never sampled again, although its error may grow.
const MIN_PRIORITY: f64 = 1e-6;

/// Returns the report on one gradient step. `priorities` are the new priorities of the items with these `keys`. With a
/// priority exponent of 0, priorities are not used and need no update.
pub(crate) fn learnt(
    (keys, priorities): (&[u64], impl Iterator<Item = f32>),
    priority_exponent: f64,
    samples: u64,
    loss: f32,
) -> Learnt {
    // NaN stays NaN, and is refused later.
    let priorities = priorities.map(|priority| f64::from(priority).clamp(MIN_PRIORITY, f64::INFINITY));
    let pairs = keys.iter().copied().zip(priorities);
    let priorities = if priority_exponent > 0.0 { pairs.collect() } else { Vec::new() };
    Learnt { steps: 1, samples, metrics: vec![("loss", f64::from(loss))], priorities }
}

/// The table of demonstrations.
const DEMONSTRATIONS: &str = "demonstrations";

settings! {
    /// Demonstrations from which the agent learns in addition to its own experience.
    pub struct Demonstrations {
        /// The share of demonstrations in a batch; 0 for none.
        pub ratio: f64 = 0.0,
        /// A folder of recorded episodes; if unset, the environment's own demonstrator is used.
        pub folder: Option<PathBuf> = None,
        /// The number of episodes of the environment's own demonstrator.
        pub episodes: usize = 1,
    }
}

impl Demonstrations {
    /// Checks that all settings are within their ranges, and that a batch has both demonstrations and own experience if
    /// the ratio is positive.
    pub(crate) fn validate(&self, batch_size: usize) -> Result<()> {
        let name = "demonstrations.ratio";
        check(name, self.ratio, (0.0..1.0).contains(&self.ratio), "from 0 to below 1")?;
        let fits = self.ratio == 0.0 || (1..batch_size).contains(&self.of_batch(batch_size));
        check(
            name,
            self.ratio,
            fits,
            "0, or such that a batch has both demonstrations and the agent's own items",
        )?;
        whole("demonstrations.episodes", self.episodes)
    }

    /// Returns the number of demonstrations in a batch.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "items of a batch"
    )]
    fn of_batch(&self, batch_size: usize) -> usize {
        (self.ratio * batch_size as f64).round() as usize
    }
}

impl OffPolicy {
    /// Checks that all settings are within their ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        environments(self.environments)?;
        let range = 1..=MAX_BATCH_SIZE;
        check("batch_size", self.batch_size, range.contains(&self.batch_size), "from 1 to 1048576")?;
        check("n_step", self.n_step, (1..=MAX_STEPS).contains(&self.n_step), "from 1 to 65536")?;
        whole("min_replay_size", self.min_replay_size)?;
        let ratio = self.samples_per_insert;
        check("samples_per_insert", ratio, ratio > 0.0 && ratio.is_finite(), "above 0 and finite")?;
        let fits = u64::try_from(self.min_replay_size).is_ok_and(|least| least <= self.max_replay_size);
        check("max_replay_size", self.max_replay_size, fits, "at least min_replay_size")?;
        let range = 1..=MAX_SHARDS;
        check("replay_shards", self.shards, range.contains(&self.shards), "from 1 to 64")?;
        let fits = u64::try_from(self.min_of_each()).is_ok_and(|least| least <= self.max_of_each());
        let expected = "few enough that each holds its part of min_replay_size";
        check("replay_shards", self.shards, fits, expected)?;
        let most = self.max_replay_size <= MAX_TABLE_SIZE;
        check("max_replay_size", self.max_replay_size, most, "at most 2147483647")?;
        fraction("discount", self.discount)
    }

    /// Returns the table of transitions, which is sampled uniformly. If there are several tables, returns the template
    /// for each of them.
    ///
    /// # Errors
    /// No table can maintain the ratio.
    pub fn table(&self) -> Result<TableConfig> {
        self.table_for(self.n_step)
    }

    /// Returns the table for steps of an environment that may insert the given number of items at once.
    ///
    /// # Errors
    /// Same as [`table`](Self::table).
    pub fn table_for(&self, burst: usize) -> Result<TableConfig> {
        let burst = burst.saturating_mul(self.environments);
        let rules = ReplayTable {
            name: TABLE,
            batch_size: self.batch_size,
            samples_per_insert: self.samples_per_insert,
            min_size: self.min_of_each(),
            max_size: self.max_of_each(),
            burst,
        };
        if self.shards == 1 {
            return rules.config();
        }
        // With several tables, some may be ahead of others: see `expect_in_step`.
        let batch_size = 2 * self.batch_size.div_ceil(self.shards);
        ReplayTable { batch_size, burst: burst.div_ceil(self.shards) + ITEMS_AHEAD, ..rules }.config()
    }

    fn min_of_each(&self) -> usize {
        self.min_replay_size.div_ceil(self.shards)
    }

    fn max_of_each(&self) -> u64 {
        self.max_replay_size / self.shards as u64
    }

    /// Returns the names of the tables of the agent's own experience.
    pub fn table_names(&self) -> Vec<String> {
        match self.shards {
            1 => vec![TABLE.to_owned()],
            shards => (0..shards).map(|shard| format!("{TABLE}/{shard}")).collect(),
        }
    }

    /// Returns these tables, each with its share of `items` in a batch.
    fn divided(&self, items: usize) -> Vec<(String, usize)> {
        self.table_names().into_iter().map(|name| (name, items / self.shards)).collect()
    }

    /// Returns the tables of the agent's own experience, each with its share of a batch that may also have
    /// demonstrations.
    pub(crate) fn own(&self, demonstrations: &Demonstrations) -> Vec<(String, usize)> {
        self.divided(self.own_of_batch(demonstrations))
    }

    fn own_of_batch(&self, demonstrations: &Demonstrations) -> usize {
        self.batch_size - demonstrations.of_batch(self.batch_size)
    }

    /// Checks that the agent's own part of a batch can be divided among the tables.
    pub(crate) fn validate_shares(&self, demonstrations: &Demonstrations) -> Result<()> {
        let is_even = self.own_of_batch(demonstrations).is_multiple_of(self.shards);
        let expected = "a divisor of batch_size, or of batch_size minus the demonstrations";
        check("replay_shards", self.shards, is_even, expected)
    }

    /// Returns all tables: the tables of the agent's own experience, each of which is like `own`, and a table of
    /// demonstrations if the settings request any.
    pub(crate) fn tables(
        &self,
        own: &TableConfig,
        demonstrations: &Demonstrations,
    ) -> Result<Vec<TableConfig>> {
        let named = |name| TableConfig { name, ..own.clone() };
        let mut tables: Vec<TableConfig> = self.table_names().into_iter().map(named).collect();
        if demonstrations.of_batch(self.batch_size) > 0 {
            tables.push(for_recorded_data(TableConfig::new(DEMONSTRATIONS))?);
        }
        Ok(tables)
    }

    /// Returns batches of the agent's own experience, at the pace of the table's rate limiter.
    ///
    /// # Errors
    /// A table is missing.
    pub fn batches(&self, crew: &Crew) -> Result<Flow<Vec<SampleBatch>>> {
        crew.replay_mixture(&self.divided(self.batch_size))
    }

    /// Like [`batches`](Self::batches), but with demonstrations mixed in.
    pub(crate) fn mixed(
        &self,
        crew: &Crew,
        demonstrations: &Demonstrations,
    ) -> Result<Flow<Vec<SampleBatch>>> {
        let mut parts = self.own(demonstrations);
        match demonstrations.of_batch(self.batch_size) {
            0 => {}
            shown => parts.push((DEMONSTRATIONS.to_owned(), shown)),
        }
        crew.replay_mixture(&parts)
    }

    /// Writes the demonstrations to their table, with an adder that `make` creates.
    pub(crate) fn show<A: Adder>(
        &self,
        crew: &Crew,
        demonstrations: &Demonstrations,
        make: impl Fn(&Client, &'static str) -> Result<A>,
    ) -> Result<()> {
        if demonstrations.of_batch(self.batch_size) == 0 {
            return Ok(());
        }
        crew.fill(DEMONSTRATIONS, &mut make(crew.client(), DEMONSTRATIONS)?, || {
            match &demonstrations.folder {
                Some(folder) => crew.recorded(folder),
                None => crew.demonstrated(demonstrations.episodes),
            }
        })
    }

    /// Creates an adder of transitions, which distributes the agent's own experience over its tables if there are
    /// several.
    pub(crate) fn transitions(
        &self,
        crew: &Crew,
    ) -> impl Fn(&Client, &'static str) -> Result<TransitionAdder> + Send + Sync + 'static {
        let (spec, n_step, discount) = (crew.spec().clone(), self.n_step, self.discount);
        let own = self.table_names();
        move |client, table| {
            let adder = TransitionAdder::new(client, table, &spec, n_step, discount)?;
            if table == TABLE { adder.in_turn(client, &own) } else { Ok(adder) }
        }
    }

    /// Like [`plan_with`](Self::plan_with), but with adders of transitions.
    ///
    /// # Errors
    /// Same as [`plan_with`](Self::plan_with).
    pub fn plan(&self, crew: &Crew, learning: Flow<Progress>) -> Result<Flow<Progress>> {
        self.plan_with(crew, learning, self.transitions(crew))
    }

    /// Like [`plan`](Self::plan), but for a policy that writes these extras.
    ///
    /// # Errors
    /// Same as [`plan_with`](Self::plan_with).
    pub fn plan_with_extras(
        &self,
        crew: &Crew,
        learning: Flow<Progress>,
        extras: Nest<ArraySpec>,
    ) -> Result<Flow<Progress>> {
        let adder = self.transitions(crew);
        self.plan_with(crew, learning, move |client, table| Ok(adder(client, table)?.with_extras(&extras)))
    }

    /// Learns whenever possible, and otherwise acts one step at a time. Adders that `make` creates write the steps to a
    /// table. A run with recorded episodes to learn from does not act.
    ///
    /// # Errors
    /// An environment, a policy or an adder cannot be created, or the recorded episodes cannot be read.
    pub fn plan_with<A: Adder + Saveable + 'static>(
        &self,
        crew: &Crew,
        learning: Flow<Progress>,
        make: impl Fn(&Client, &'static str) -> Result<A> + Send + Sync + 'static,
    ) -> Result<Flow<Progress>> {
        if let Some(folder) = crew.data() {
            let first = self.table_names().swap_remove(0);
            crew.fill(&first, &mut make(crew.client(), TABLE)?, || crew.recorded(folder))?;
            return Ok(learning);
        }
        self.expect_in_step(crew)?;
        let acting = crew.store(crew.rollouts(1)?, move |client| make(client, TABLE)).acting()?;
        let order = match crew.learners() {
            // A thread that alternates must learn as much as the rate limiter allows: otherwise, with many samples per
            // insert, its next step could wait for room that only the learner makes.
            1 if crew.acts_in_turn() => [Weight::UpTo(u32::MAX), Weight::UpTo(1)],
            1 => [Weight::All, Weight::UpTo(1)],
            // The first of several learners does not delay the workers: it counts all of their steps so far before it
            // takes its next step.
            _ => [Weight::UpTo(1), Weight::All],
        };
        Ok(Flow::union([learning, acting], Order::weighted(order)))
    }

    /// Checks that the rate limiters of several tables tolerate tables that are ahead of others. Each environment
    /// writes its items to the tables in turn, so a table is ahead by at most one item per environment. The learner
    /// takes the same number of samples from each table, except for four batches in flight. With less tolerance, actors
    /// could wait for a table that the learner does not sample, because the learner itself is waiting for another
    /// table.
    ///
    /// # Errors
    /// The tolerance is too small.
    #[expect(clippy::cast_precision_loss, reason = "items and samples, as rate limiters count them")]
    fn expect_in_step(&self, crew: &Crew) -> Result<()> {
        if self.shards == 1 {
            return Ok(());
        }
        let limiter = self.table()?.rate_limiter;
        let on_their_way = 4 * self.batch_size.div_ceil(self.shards) * crew.learners();
        let room = limiter.max_diff - limiter.min_diff - on_their_way as f64;
        let most = room / self.samples_per_insert - 1.0;
        let expected = "fewer for this number of actors, or a larger min_replay_size";
        check("replay_shards", self.shards, crew.environments() as f64 <= most, expected)
    }
}
