//! What the parts of a run cost, on the machine where that was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Agent, Result, RlError};

/// The version of the file.
const VERSION: u32 = 1;

/// What the parts of a run cost. Times are those of a processor, without waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The version of these fields.
    pub version: u32,
    /// The agent.
    pub agent: String,
    /// The environment.
    pub environment: String,
    /// The agent's settings.
    pub settings: BTreeMap<String, String>,
    /// The machine that it was measured on.
    pub host: String,
    /// Its processors.
    pub processors: f64,
    /// Environments of one worker, as it was measured.
    pub rows: usize,
    /// What acting costs, by the number of environments of a worker.
    pub acting: Vec<ActCost>,
    /// What the thread that acts does for each step in the environment beside that: adding it to tables or sending
    /// it, in seconds.
    pub send_s: f64,
    /// What other threads of a worker take for that, those of its connection.
    pub connection_s: f64,
    /// How long a worker waits for answers for each step in the environment, where nothing else holds it up.
    pub pause_s: f64,
    /// What the thread that learns takes for each step in the environment, learning included.
    pub learner_s: f64,
    /// What other threads beside it take for each step in the environment, such as those that serve the tables.
    pub serve_s: f64,
    /// Steps of the learner for each step in the environment.
    pub learner_steps: f64,
    /// Steps in the environment of all workers together from one round to the next, of a plan that goes by rounds.
    pub round: Option<f64>,
    /// How long a round waits for messages.
    pub round_pause_s: f64,
    /// What goes into the tables of the agent.
    pub tables: Vec<TableCost>,
    /// Bytes that go from a worker to the learner for each step in the environment.
    pub sent_bytes: f64,
    /// What publishing costs.
    pub weights: WeightCost,
}

/// What it costs to act once in each environment of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActCost {
    /// Environments.
    pub rows: usize,
    /// The policy's share, in seconds.
    pub act_s: f64,
    /// That of the environments.
    pub step_s: f64,
}

/// What goes into a table for each step in the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableCost {
    /// Its name.
    pub name: String,
    /// Items that are inserted.
    pub inserts: f64,
    /// Items that are sampled.
    pub samples: f64,
    /// Bytes of an item, as it is stored.
    pub item_bytes: f64,
}

/// What publishing weights costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightCost {
    /// Bytes of the weights.
    pub bytes: f64,
    /// What the learner's process takes to put a version where workers find it, in seconds.
    pub publish_s: f64,
    /// What a worker takes to fetch it.
    pub fetch_s: f64,
    /// What the learner's process takes for that.
    pub serve_s: f64,
    /// How many of the versions that are put there a worker fetches.
    pub fetched: f64,
}

impl Costs {
    /// The version that this program writes.
    pub(super) const VERSION: u32 = VERSION;

    /// What acting costs for each step in the environment, in seconds, where a worker has so many environments:
    /// between those that were measured on a line, and beyond the largest as much more for each as before it.
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

    /// Whether they are those of an agent with its settings in an environment, which is asked for; `place` is where
    /// they are from.
    ///
    /// # Errors
    /// [`OtherRun`](RlError::OtherRun) with what differs.
    pub fn expect(&self, agent: &dyn Agent, environment: &str, place: &str) -> Result<()> {
        let mut differences = Vec::new();
        for (what, there, asked) in
            [("agent", &self.agent[..], agent.name()), ("environment", &self.environment, environment)]
        {
            if there != asked {
                differences.push(format!("{what} is {there} there, {asked} was asked for"));
            }
        }
        // Another agent has other settings.
        let settings = if differences.is_empty() { agent.settings() } else { Vec::new() };
        for (name, asked) in settings {
            let there = self.settings.get(&name).map_or("nothing", String::as_str);
            if there != asked {
                differences.push(format!("{name} is {there} there, {asked} was asked for"));
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        let advice = "ask for the same, or give another file, which the costs are measured for";
        Err(RlError::OtherRun { place: place.to_owned(), differences: differences.join("; "), advice })
    }

    /// Writes them to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| RlError::state(WHAT, error))?;
        std::fs::write(path, text + "\n").map_err(|error| RlError::file(path, error))
    }

    /// Reads them from a file that [`save`](Self::save) has written.
    ///
    /// # Errors
    /// It cannot be read, or has no costs of this version.
    pub fn load(path: &Path) -> Result<Costs> {
        let text = std::fs::read_to_string(path).map_err(|error| RlError::file(path, error))?;
        Costs::from_json(&text)
    }

    /// Reads them from the text of such a file.
    ///
    /// # Errors
    /// It has no costs of this version.
    pub fn from_json(text: &str) -> Result<Costs> {
        let costs: Costs = serde_json::from_str(text).map_err(|error| RlError::state(WHAT, error))?;
        costs.check()?;
        Ok(costs)
    }

    /// Whether all numbers are those of something that can be, and each table is there once.
    fn check(&self) -> Result<()> {
        if self.version != VERSION {
            let reason =
                format_args!("they are of version {}, not {VERSION}; measure them again", self.version);
            return Err(RlError::state(WHAT, reason));
        }
        let sorted = self.acting.windows(2).all(|pair| pair[0].rows < pair[1].rows);
        if self.acting.is_empty() || !sorted || self.acting[0].rows == 0 || self.rows == 0 {
            let reason = "`acting` must have numbers of environments from 1 on, each larger than the one before, and `rows` at least 1";
            return Err(RlError::state(WHAT, reason));
        }
        let names: BTreeSet<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        if names.len() != self.tables.len() {
            return Err(RlError::state(WHAT, "`tables` has two of the same name"));
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
                format_args!("`{name}` is {number}, but it must be a finite number from 0 on"),
            )),
            None => Ok(()),
        }
    }
}

const WHAT: &str = "the costs of a run";
