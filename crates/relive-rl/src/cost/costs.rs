//! The costs of a run's parts, on the machine where they were measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::identity::{Comparison, version_of};
use crate::{Agent, Result, RlError};

/// The version of the file format.
const VERSION: u32 = 1;

/// The costs of a run's parts. All times are processor times and exclude waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The version of the file format.
    pub version: u32,
    /// The agent.
    pub agent: String,
    /// The environment.
    pub environment: String,
    /// The agent's settings.
    pub settings: BTreeMap<String, String>,
    /// The host name of the measured machine.
    pub host: String,
    /// The number of processors of the measured machine.
    pub processors: f64,
    /// The number of environments per worker in the measurement.
    pub rows: usize,
    /// The cost of acting, by the number of environments of a worker.
    pub acting: Vec<ActCost>,
    /// Other work of the acting thread per environment step, such as adding the step to tables or sending it, in
    /// seconds.
    pub send_s: f64,
    /// The work of a worker's other threads, which serve its connection, per environment step.
    pub connection_s: f64,
    /// How long a worker waits for answers per environment step, provided that nothing else delays it.
    pub pause_s: f64,
    /// The work of the learner's thread per environment step, including learning.
    pub learner_s: f64,
    /// The work of the other threads of the learner's process per environment step, such as serving the tables.
    pub serve_s: f64,
    /// Learner steps per environment step.
    pub learner_steps: f64,
    /// The number of environment steps of all workers per round, for a plan with rounds.
    pub round: Option<f64>,
    /// How long a round waits for messages.
    pub round_pause_s: f64,
    /// The load of the agent's tables.
    pub tables: Vec<TableCost>,
    /// The number of bytes that a worker sends to the learner per environment step.
    pub sent_bytes: f64,
    /// The cost of publishing weights.
    pub weights: WeightCost,
}

/// The cost of acting once in each environment of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActCost {
    /// The number of environments.
    pub rows: usize,
    /// The time that the policy takes, in seconds.
    pub act_s: f64,
    /// The time that the environments take, in seconds.
    pub step_s: f64,
}

/// The load of a table per environment step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableCost {
    /// The name of the table.
    pub name: String,
    /// The number of inserted items.
    pub inserts: f64,
    /// The number of sampled items.
    pub samples: f64,
    /// The stored size of an item in bytes.
    pub item_bytes: f64,
}

/// The cost of publishing weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightCost {
    /// The size of the weights in bytes.
    pub bytes: f64,
    /// The time that the learner's process spends on publishing a version, in seconds.
    pub publish_s: f64,
    /// The time that a worker spends on fetching a version, in seconds.
    pub fetch_s: f64,
    /// The time that the learner's process spends on serving a fetch, in seconds.
    pub serve_s: f64,
    /// The share of the published versions that a worker fetches.
    pub fetched: f64,
}

impl Costs {
    /// The version of the format that this program writes.
    pub(super) const VERSION: u32 = VERSION;

    /// Returns the cost of acting per environment step, in seconds, for a worker with the given number of environments.
    /// The cost is interpolated linearly between measured numbers, and extrapolated with the last slope beyond the
    /// largest.
    #[must_use]
    pub fn act_s(&self, rows: f64) -> f64 {
        let total = |cost: &ActCost| cost.act_s + cost.step_s;
        #[expect(clippy::cast_precision_loss, reason = "a worker has few environments")]
        let points: Vec<(f64, f64)> =
            self.acting.iter().map(|cost| (cost.rows as f64, total(cost))).collect();
        let line = |(x0, y0): (f64, f64), (x1, y1): (f64, f64)| y0 + (rows - x0) * (y1 - y0) / (x1 - x0);
        let all = match points.as_slice() {
            [] => 0.0,
            [(x, y)] => y * rows / x,
            points => {
                let pair =
                    points.windows(2).find(|pair| rows <= pair[1].0).unwrap_or(&points[points.len() - 2..]);
                line(pair[0], pair[1])
            }
        };
        all.max(0.0) / rows
    }

    /// Checks that the costs were measured for this agent, with its settings, in this environment. `place` names the
    /// source of the costs, for error messages.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) with the differences.
    pub fn expect(&self, agent: &dyn Agent, environment: &str, place: &str) -> Result<()> {
        let comparison = Comparison {
            place,
            saved: "the file of costs",
            asked: "this run",
            advice: "use the values in the file, or name another file, to which the costs of this run are then written",
        };
        let some = |text: &str| Some(text.to_owned());
        let mut differences = comparison.differences([
            ("agent", some(&self.agent), some(agent.name())),
            ("environment", some(&self.environment), some(environment)),
        ]);
        // The settings of different agents are not comparable.
        let settings = if differences.is_empty() { agent.settings() } else { Vec::new() };
        let settings = settings.into_iter().map(|(name, asked)| {
            let saved = self.settings.get(&name).cloned();
            (name, saved, Some(asked))
        });
        differences.extend(comparison.differences(settings));
        comparison.refuse(&differences)
    }

    /// Writes the costs to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let text = serde_json::to_string_pretty(self).map_err(|error| RlError::state(WHAT, error))?;
        std::fs::write(path, text + "\n").map_err(|error| RlError::file(path, error))
    }

    /// Reads costs from a file written by [`save`](Self::save).
    ///
    /// # Errors
    /// The file cannot be read, or contains no costs in this version's format.
    pub fn load(path: impl AsRef<Path>) -> Result<Costs> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| RlError::file(path, error))?;
        Costs::from_json(&text)
    }

    /// Parses the content of a file of costs.
    ///
    /// # Errors
    /// The file contains no costs in this version's format.
    pub fn from_json(text: &str) -> Result<Costs> {
        let version = version_of(text.as_bytes()).map_err(|error| RlError::state(WHAT, error))?;
        if version != VERSION {
            let reason = format_args!("they have version {version}, not {VERSION}; measure them again");
            return Err(RlError::state(WHAT, reason));
        }
        let costs: Costs = serde_json::from_str(text).map_err(|error| RlError::state(WHAT, error))?;
        costs.check()?;
        Ok(costs)
    }

    /// Checks that all numbers are plausible and that table names are unique.
    fn check(&self) -> Result<()> {
        let sorted = self.acting.windows(2).all(|pair| pair[0].rows < pair[1].rows);
        if self.acting.is_empty() || !sorted || self.acting[0].rows == 0 || self.rows == 0 {
            let reason =
                "`acting` must have increasing numbers of environments of at least 1, and `rows` at least 1";
            return Err(RlError::state(WHAT, reason));
        }
        let names: BTreeSet<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        if names.len() != self.tables.len() {
            return Err(RlError::state(WHAT, "`tables` has two tables of the same name"));
        }
        let WeightCost { bytes, publish_s, fetch_s, serve_s, fetched } = self.weights;
        let numbers = [
            ("processors", self.processors),
            ("send_s", self.send_s),
            ("connection_s", self.connection_s),
            ("pause_s", self.pause_s),
            ("learner_s", self.learner_s),
            ("serve_s", self.serve_s),
            ("learner_steps", self.learner_steps),
            ("round_pause_s", self.round_pause_s),
            ("sent_bytes", self.sent_bytes),
            ("round", self.round.unwrap_or(1.0)),
            ("weights.bytes", bytes),
            ("weights.publish_s", publish_s),
            ("weights.fetch_s", fetch_s),
            ("weights.serve_s", serve_s),
            ("weights.fetched", fetched),
        ];
        let of_acting = self
            .acting
            .iter()
            .flat_map(|cost| [("acting.act_s", cost.act_s), ("acting.step_s", cost.step_s)]);
        let of_tables = self.tables.iter().flat_map(|table| {
            [
                ("tables.inserts", table.inserts),
                ("tables.samples", table.samples),
                ("tables.item_bytes", table.item_bytes),
            ]
        });
        let mut numbers = numbers.into_iter().chain(of_acting).chain(of_tables);
        match numbers.find(|(_, number)| !(number.is_finite() && *number >= 0.0)) {
            Some((name, number)) => Err(RlError::state(
                WHAT,
                format_args!("`{name}` is {number}, but it must be a finite number of at least 0"),
            )),
            None => Ok(()),
        }
    }
}

const WHAT: &str = "the costs of a run";
