//! The result of a run, for programs and for people.

use relive_client::Transport;
use serde::Serialize;

use super::Options;
use super::client::Work;
use super::options::Load;
use super::tally::Tally;
use crate::units::{count, rate};

/// The result of a run. `docs/cli.md` lists the fields.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    address: &'a str,
    table: &'a str,
    load: Load,
    item_bytes: u32,
    batch: u32,
    clients: u32,
    transport: String,
    seconds: f64,
    insert: Option<Figures>,
    sample: Option<Figures>,
    errors: usize,
    first_error: Option<String>,
}

/// The combined results of the clients of one kind.
#[derive(Debug, Serialize)]
struct Figures {
    items: u64,
    items_per_s: f64,
    #[serde(rename = "MB_per_s")]
    mb_per_s: f64,
    latency_p50_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    latency_max_ms: Option<f64>,
    slowest_client: Option<f64>,
    errors: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(options: &'a Options, table: &'a str, transport: Transport, work: &Work) -> Self {
        let seconds = options.seconds.as_secs_f64();
        let tallies = || [&work.inserts, &work.samples].into_iter().flatten();
        let mut errors = tallies().flat_map(|tally| &tally.errors);
        Self {
            address: &options.target.address,
            table,
            load: options.load,
            item_bytes: options.bytes,
            batch: options.batch,
            clients: options.clients,
            transport: transport.to_string(),
            seconds,
            insert: work.inserts.as_ref().map(|tally| Figures::new(tally, seconds)),
            sample: work.samples.as_ref().map(|tally| Figures::new(tally, seconds)),
            errors: tallies().map(|tally| tally.errors.len()).sum(),
            first_error: errors.next().map(ToString::to_string),
        }
    }

    /// Returns the report as JSON, in one line or indented.
    pub(super) fn json(&self, in_one_line: bool) -> String {
        let text = if in_one_line { serde_json::to_string(self) } else { serde_json::to_string_pretty(self) };
        text.expect("strings and numbers")
    }

    /// Returns a line for each kind of client.
    pub(super) fn summary(&self) -> Vec<String> {
        let parts = [("insert", "flush", &self.insert), ("sample", "batch", &self.sample)];
        parts
            .into_iter()
            .filter_map(|(name, unit, figures)| Some(figures.as_ref()?.summary(name, unit)))
            .collect()
    }
}

impl Figures {
    fn new(tally: &Tally, seconds: f64) -> Self {
        Self {
            items: tally.items,
            items_per_s: rounded(tally.items as f64 / seconds),
            mb_per_s: rounded(tally.bytes as f64 / 1e6 / seconds),
            latency_p50_ms: tally.latency_ms(0.5),
            latency_p99_ms: tally.latency_ms(0.99),
            latency_max_ms: tally.latency_ms(1.0),
            slowest_client: tally.slowest_client().map(rounded),
            errors: tally.errors.len(),
        }
    }

    fn summary(&self, name: &str, unit: &str) -> String {
        let ms = |latency: Option<f64>| latency.map_or("-".to_owned(), |latency| format!("{latency:.2} ms"));
        format!(
            "{name}: {} items, {}, {:.1} MB/s; {unit} p50 {}, p99 {}, max {}",
            count(self.items),
            rate(self.items_per_s),
            self.mb_per_s,
            ms(self.latency_p50_ms),
            ms(self.latency_p99_ms),
            ms(self.latency_max_ms),
        )
    }
}

/// Rounds to thousandths, which is more precise than any measurement.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
