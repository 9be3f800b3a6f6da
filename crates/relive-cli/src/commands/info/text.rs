//! The report for people.

use relive_client::{LoggedChange, Paused, ServerStatus, Waiter};

use super::bar::bar;
use super::checkpoints;
use super::memory;
use super::rates::Rates;
use super::snapshot::{Server, Snapshot, Table};
use super::waiters::operation;
use crate::rules::{bounds, selectors};
use crate::units::{bytes, count, counted, number, plural, rate, time, utc};

/// The maximum number of lines about the waiters of a table.
const SHOWN_GROUPS: usize = 10;

/// The maximum number of lines about changes to tables in use.
const SHOWN_CHANGES: usize = 5;

/// Returns the report: a paragraph for the server, and one for each table.
pub(in crate::commands) fn report(address: &str, before: &Snapshot, now: &Snapshot) -> String {
    let mut lines = server(address, &now.server);
    for table in now.tables() {
        lines.push(String::new());
        lines.extend(self::table(table, Rates::between(before, now, table)));
    }
    lines.join("\n")
}

fn server(address: &str, server: &Server) -> Vec<String> {
    match server {
        Server::Relive(status) => {
            let ServerStatus { version, uptime, chunks, memory, .. } = &**status;
            let mut lines = vec![
                format!("Relive {version} at {address}, up {}", time(*uptime)),
                format!(
                    "{} of {} ({} decoded); {}, {} and {}",
                    counted(chunks.chunks, "chunk"),
                    bytes(chunks.encoded_bytes),
                    bytes(chunks.raw_bytes),
                    counted(status.connections, "connection"),
                    counted(status.insert_streams, "insert stream"),
                    counted(status.sample_streams, "sample stream"),
                ),
            ];
            lines.push(memory::line(chunks, memory));
            if !memory.waiters.is_empty() {
                lines.extend(waiters(&memory.waiters, memory.waiters_not_listed));
            }
            lines.extend(checkpoints::lines(&status.checkpoints));
            lines.extend(changes(&status.changes));
            lines
        }
        Server::Reverb(_) => {
            vec![format!("dm-reverb at {address}; it does not report bytes and waiters")]
        }
    }
}

/// Returns the latest changes to tables in use, newest first.
fn changes(changes: &[LoggedChange]) -> impl Iterator<Item = String> {
    changes.iter().rev().take(SHOWN_CHANGES).map(|change| {
        let LoggedChange { at, who, table, what, old, new } = change;
        format!("changed {} by {who}: {what} of {table} was {old}, is {new}", utc(*at))
    })
}

fn table(table: Table<'_>, rates: Rates) -> Vec<String> {
    let mut lines = vec![headline(table), rules(table), counters(table, rates), limiter(table)];
    if let Some(details) = table.details {
        lines.extend(paused(details.paused).map(str::to_owned));
        lines.extend(waiters(&details.waiters, details.waiters_not_listed));
    }
    lines
}

fn paused(paused: Paused) -> Option<&'static str> {
    match (paused.inserts, paused.samples) {
        (true, true) => Some("  paused: inserts and samples"),
        (true, false) => Some("  paused: inserts"),
        (false, true) => Some("  paused: samples"),
        (false, false) => None,
    }
}

fn headline(table: Table<'_>) -> String {
    let (info, config) = (table.info, &table.info.config);
    let size = format!("{} of {}", count(info.current_size), counted(config.max_size, "item"));
    match memory::of_table(table) {
        Some(bytes) => format!("{}: {size}, {bytes}", config.name),
        None => format!("{}: {size}", config.name),
    }
}

fn rules(table: Table<'_>) -> String {
    format!("  {}", selectors(&table.info.config))
}

fn counters(table: Table<'_>, rates: Rates) -> String {
    let info = table.info;
    let counter = |number: i64, what: &str, per_second: Option<f64>| {
        let number = counted(u64::try_from(number).unwrap_or(0), what);
        let rate = per_second.map(|per_second| format!(" ({})", rate(per_second))).unwrap_or_default();
        format!("{number}{rate}")
    };
    let mut line = format!(
        "  {}, {}, {}, {}",
        counter(info.inserts, "insert", rates.inserts_per_s),
        counter(info.samples, "sample", rates.samples_per_s),
        counter(info.deletes, "delete", None),
        counted(info.num_episodes, "episode"),
    );
    if let Some(undelivered) = table.details.map(|details| details.undelivered_samples)
        && undelivered > 0
    {
        line.push_str(&format!(", {} undelivered", counted(undelivered, "sample")));
    }
    line
}

fn limiter(table: Table<'_>) -> String {
    let limiter = &table.info.config.rate_limiter;
    let (min, max) = bounds(limiter);
    let is_bound = min.is_some() || max.is_some();
    let mut parts = Vec::new();
    if is_bound {
        let ratio = limiter.samples_per_insert;
        let noun = plural(ratio == 1.0, "sample");
        parts.extend([cursor(table.cursor, min, max), format!("{} {noun} per insert", number(ratio))]);
    }
    let least = u64::try_from(table.min_items()).unwrap_or(0);
    parts.push(match beyond_minimum(table) {
        Err(missing) => format!("{} missing until sampling can start", counted(missing, "item")),
        Ok(_) if is_bound => format!("sampling needs {}", counted(least, "item")),
        Ok(over) => format!("{} over the minimum of {}", counted(over, "item"), count(least)),
    });
    let of = if table.servers > 1 { format!(" (mean of {} servers)", table.servers) } else { String::new() };
    format!("  limiter{of}: {}", parts.join(", "))
}

/// Returns, as text, by how many items the table exceeds the minimum for sampling, or how many items are missing.
pub(in crate::commands) fn beyond_minimum(table: Table<'_>) -> Result<u64, u64> {
    let over = table.info.inserts - table.info.deletes - table.min_items();
    if over < 0 { Err(over.unsigned_abs()) } else { Ok(over.unsigned_abs()) }
}

/// Returns the cursor and its bounds, at least one of which exists. A bar is drawn only if the cursor lies between two
/// bounds.
fn cursor(cursor: f64, min: Option<f64>, max: Option<f64>) -> String {
    let at = number(cursor);
    let range = match (min.map(number), max.map(number)) {
        (Some(min), Some(max)) => format!("{min}..{max}"),
        (Some(bound), None) | (None, Some(bound)) => bound,
        (None, None) => return at,
    };
    match (min, max) {
        (Some(min), _) if cursor < min => format!("{at}, below {range}"),
        (_, Some(max)) if cursor > max => format!("{at}, above {range}"),
        (Some(min), Some(max)) => format!("{} {at} in {range}", bar(cursor, min, max)),
        (Some(_), None) => format!("{at}, at least {range}"),
        (None, _) => format!("{at}, at most {range}"),
    }
}

pub(in crate::commands) fn waiters(listed: &[Waiter], not_listed: u64) -> Vec<String> {
    let all = u64::try_from(listed.len()).unwrap_or(u64::MAX).saturating_add(not_listed);
    if all == 0 {
        return vec!["  no calls are waiting".to_owned()];
    }
    let mut lines = vec![format!("  waiting: {}", count(all))];
    let groups = listed.chunk_by(are_alike);
    lines.extend(groups.clone().take(SHOWN_GROUPS).map(group));
    let shown: usize = groups.take(SHOWN_GROUPS).map(<[Waiter]>::len).sum();
    let hidden = all.saturating_sub(u64::try_from(shown).unwrap_or(u64::MAX));
    if hidden > 0 {
        lines.push(format!("    and {} more", count(hidden)));
    }
    lines
}

/// Returns whether two waiters are combined in one line. A single writer may have hundreds of waiting inserts.
fn are_alike(a: &Waiter, b: &Waiter) -> bool {
    (a.operation, &a.who, &a.reason) == (b.operation, &b.who, &b.reason)
}

/// Formats similar waiters, longest wait first.
fn group(waiters: &[Waiter]) -> String {
    let Some(first) = waiters.first() else { return String::new() };
    let what = operation(first.operation);
    let wanted = match waiters.iter().map(|waiter| waiter.wanted).sum() {
        0 => String::new(),
        wanted => format!(" of {}", count(wanted)),
    };
    format!("    {what}{wanted} by {} for {}: {}", first.who, time(first.waiting), first.reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relive_client::{ServerInfo, StateId, WaiterOperation};
    use relive_table::{RateLimiterConfig, TableConfig, TableInfo};

    use super::*;

    fn info(config: TableConfig, inserts: i64, samples: i64) -> TableInfo {
        TableInfo {
            config: config.into(),
            current_size: u64::try_from(inserts).unwrap(),
            num_episodes: 2,
            num_deleted_episodes: 0,
            num_unique_samples: 0,
            num_refused_requests: 0,
            inserts,
            samples,
            deletes: 0,
        }
    }

    fn reverb(table: TableInfo) -> Snapshot {
        Snapshot::of(Server::Reverb(ServerInfo { state_id: StateId::default(), tables: vec![table] }))
    }

    #[test]
    fn a_dm_reverb_server_is_shown_without_bytes_and_waiters() {
        let mut before = reverb(info(TableConfig::queue("q", 8), 0, 0));
        let now = reverb(info(TableConfig::queue("q", 8), 6, 2));
        before.taken_at = now.taken_at.checked_sub(Duration::from_secs(2)).unwrap();
        let expected = "dm-reverb at host:1; it does not report bytes and waiters\n\n\
                        q: 6 of 8 items\n  \
                        sampled by Fifo, once; removed by Fifo\n  \
                        6 inserts (3.0/s), 2 samples (1.0/s), 0 deletes, 2 episodes\n  \
                        limiter: [------------|-----------] 4 in 0..8, 1 sample per insert, sampling needs 1 item";
        assert_eq!(report("host:1", &before, &now), expected);
    }

    #[test]
    fn a_table_below_its_minimum_shows_the_number_of_missing_items() {
        let config = TableConfig::new("t").rate_limiter(RateLimiterConfig::min_size(1_000).unwrap());
        let info = info(config, 10, 0);
        assert_eq!(
            limiter(Table::of_info(&info, 1)),
            "  limiter: 990 items missing until sampling can start"
        );
    }

    #[test]
    fn the_limiters_of_several_servers_are_compared_with_all_their_bounds() {
        let config = TableConfig::new("t").rate_limiter(RateLimiterConfig::min_size(1_000).unwrap());
        let few = info(config, 1_500, 0);
        let shown = limiter(Table::of_info(&few, 2));
        assert_eq!(shown, "  limiter (mean of 2 servers): 500 items missing until sampling can start");
        let queue = info(TableConfig::queue("q", 8), 12, 2);
        let shown = limiter(Table::of_info(&queue, 2));
        assert!(shown.contains("] 5 in 0..8"), "{shown}");
    }

    #[test]
    fn a_limiter_without_bounds_shows_the_items_over_its_minimum() {
        let config = TableConfig::new("t").rate_limiter(RateLimiterConfig::min_size(1_000).unwrap());
        let info = info(config, 200_141, 3);
        assert_eq!(limiter(Table::of_info(&info, 1)), "  limiter: 199,141 items over the minimum of 1,000");
    }

    #[test]
    fn a_cursor_out_of_bounds_is_shown_as_text() {
        assert_eq!(cursor(0.0, Some(3000.0), Some(5000.0)), "0, below 3000..5000");
        assert_eq!(cursor(9.5, Some(0.0), Some(8.0)), "9.5, above 0..8");
        assert_eq!(cursor(0.0, Some(0.0), Some(8.0)), "[|-----------------------] 0 in 0..8");
        assert_eq!(cursor(1.0, Some(2.0), None), "1, below 2");
        assert_eq!(cursor(3.0, Some(2.0), None), "3, at least 2");
        assert_eq!(cursor(1.0 / 3.0, None, Some(2.0)), "0.333, at most 2");
    }

    #[test]
    fn counts_of_one_use_the_singular() {
        let info = info(TableConfig::queue("q", 1), 1, 1);
        let table = Table::of_info(&info, 1);
        assert_eq!(headline(table), "q: 1 of 1 item");
        let none = Rates { inserts_per_s: None, samples_per_s: None };
        assert_eq!(counters(table, none), "  1 insert, 1 sample, 0 deletes, 2 episodes");
    }

    #[test]
    fn rates_are_omitted_when_a_counter_decreased() {
        let before = reverb(info(TableConfig::new("t"), 10, 0));
        let now = reverb(info(TableConfig::new("t"), 3, 0));
        let rates = Rates::between(&before, &now, now.tables()[0]);
        assert_eq!(counters(now.tables()[0], rates), "  3 inserts, 0 samples (0.0/s), 0 deletes, 2 episodes");
    }

    #[test]
    fn equal_waiters_share_a_line() {
        let waiter = |who: &str, reason: &str| Waiter {
            operation: WaiterOperation::Insert,
            who: who.to_owned(),
            waiting: Duration::from_secs(3),
            reason: reason.to_owned(),
            missing: 0,
            wanted: 1,
        };
        let mut listed = vec![waiter("a", "needs 8 more samples")];
        listed.extend((0..20).map(|_| waiter("a", "queued behind other calls")));
        listed.extend((0..9).map(|number| waiter(&number.to_string(), "queued behind other calls")));
        let lines = waiters(&listed, 70);
        assert_eq!(lines[0], "  waiting: 100");
        assert_eq!(lines[1], "    insert of 1 by a for 3.0 s: needs 8 more samples");
        assert_eq!(lines[2], "    insert of 20 by a for 3.0 s: queued behind other calls");
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[11], "    and 71 more");
    }
}
