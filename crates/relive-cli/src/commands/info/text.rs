//! The report for people.

use relive_client::Waiter;

use super::bar::{bar, bounds};
use super::json::operation;
use super::rates::Rates;
use super::snapshot::{Details, Server, Snapshot, Table};
use crate::units::{bytes, count, rate, time};

/// Waiters of a table that are shown.
const SHOWN_WAITERS: usize = 10;

/// The report: a paragraph for the server, and one for each table.
pub(super) fn report(address: &str, before: &Snapshot, now: &Snapshot) -> String {
    let mut lines = server(address, &now.server);
    for table in &now.tables {
        lines.push(String::new());
        lines.extend(self::table(table, Rates::between(before, now, table)));
    }
    lines.join("\n")
}

fn server(address: &str, server: &Server) -> Vec<String> {
    match server {
        Server::Relive { version, uptime, chunks, insert_streams, sample_streams } => vec![
            format!("Relive {version} at {address}, up {}", time(*uptime)),
            format!(
                "{} chunks of {} ({} decoded); {insert_streams} insert and {sample_streams} sample streams",
                count(chunks.chunks),
                bytes(chunks.encoded_bytes),
                bytes(chunks.raw_bytes),
            ),
        ],
        Server::Reverb => {
            vec![format!("dm-reverb at {address}; it does not tell bytes and waiters")]
        }
    }
}

fn table(table: &Table, rates: Rates) -> Vec<String> {
    let mut lines = vec![headline(table), rules(table), counters(table, rates), limiter(table)];
    if let Some(details) = &table.details {
        lines.extend(waiters(details));
    }
    lines
}

fn headline(table: &Table) -> String {
    let (info, config) = (&table.info, &table.info.config);
    let size = format!("{} of {} items", count(info.current_size), count(config.max_size));
    match &table.details {
        Some(details) => format!("{}: {size}, {}", config.name, bytes(details.bytes)),
        None => format!("{}: {size}", config.name),
    }
}

fn rules(table: &Table) -> String {
    let config = &table.info.config;
    let times = match config.max_times_sampled {
        1 => "once".to_owned(),
        limit if limit > 1 => format!("at most {limit} times"),
        _ => "any number of times".to_owned(),
    };
    format!("  sampled by {}, {times}; removed by {}", config.sampler, config.remover)
}

fn counters(table: &Table, rates: Rates) -> String {
    let info = &table.info;
    let with_rate = |number: i64, per_second: Option<f64>| {
        let number = count(u64::try_from(number).unwrap_or(0));
        per_second.map_or(number.clone(), |per_second| format!("{number} ({})", rate(per_second)))
    };
    let mut line = format!(
        "  {} inserts, {} samples, {} deletes, {} episodes",
        with_rate(info.inserts, rates.inserts_per_s),
        with_rate(info.samples, rates.samples_per_s),
        with_rate(info.deletes, None),
        count(info.num_episodes),
    );
    if let Some(undelivered) = table.details.as_ref().map(|details| details.undelivered_samples)
        && undelivered > 0
    {
        line.push_str(&format!(", {} samples undelivered", count(undelivered)));
    }
    line
}

fn limiter(table: &Table) -> String {
    let limiter = &table.info.config.rate_limiter;
    let cursor = table.cursor;
    let mut parts = match bounds(limiter) {
        (Some(min), Some(max)) => {
            vec![format!("{} {cursor} in {min}..{max}", bar(cursor, min, max))]
        }
        (Some(min), None) => vec![format!("{cursor}, at least {min}")],
        (None, Some(max)) => vec![format!("{cursor}, at most {max}")],
        (None, None) => vec!["no bounds".to_owned()],
    };
    if parts.first().is_some_and(|part| part != "no bounds") {
        parts.push(format!("{} samples per insert", limiter.samples_per_insert));
    }
    let missing = limiter.min_size_to_sample - (table.info.inserts - table.info.deletes);
    parts.push(match u64::try_from(missing) {
        Ok(missing @ 1..) => format!("{} items missing until samples may begin", count(missing)),
        _ => format!("samples from {} items on", limiter.min_size_to_sample),
    });
    format!("  limiter: {}", parts.join(", "))
}

fn waiters(details: &Details) -> Vec<String> {
    let listed = u64::try_from(details.waiters.len()).unwrap_or(u64::MAX);
    let all = listed.saturating_add(details.waiters_not_listed);
    if all == 0 {
        return vec!["  nobody waits".to_owned()];
    }
    let mut lines = vec![format!("  waiting: {}", count(all))];
    lines.extend(details.waiters.iter().take(SHOWN_WAITERS).map(waiter));
    let shown = u64::try_from(lines.len() - 1).unwrap_or(u64::MAX);
    if all > shown {
        lines.push(format!("    and {} more", count(all - shown)));
    }
    lines
}

fn waiter(waiter: &Waiter) -> String {
    let (what, wanted) = (operation(waiter.operation), count(waiter.wanted));
    format!("    {what} of {wanted} by {} for {}: {}", waiter.who, time(waiter.waiting), waiter.reason)
}
