//! The metrics of the tables: one sample of each metric per table.

use relive_engine::{Operation, TableStatus};

use crate::monitor::{
    overview::UNREACHABLE_CURSOR,
    prometheus::{Page, Value},
};

pub(super) fn put(page: &mut Page, tables: &[TableStatus]) {
    sizes(page, tables);
    bytes(page, tables);
    counters(page, tables);
    limiter(page, tables);
    waiters(page, tables);
}

fn sizes(page: &mut Page, tables: &[TableStatus]) {
    let mut gauge = |name, help, of: &dyn Fn(&TableStatus) -> Option<u64>| each(page, name, help, tables, of);
    gauge("relive_table_items", "Items in the table.", &|it| Some(it.info.current_size));
    gauge("relive_table_max_items", "Maximum number of items, max_size.", &|it| {
        Some(it.info.config.max_size)
    });
    gauge("relive_table_max_bytes", "Maximum stored bytes, max_bytes.", &|it| it.info.config.max_bytes);
    gauge("relive_table_episodes", "Episodes with items in the table.", &|it| Some(it.info.num_episodes));
    gauge("relive_table_chunks", "Chunks that items refer to.", &|it| Some(it.bytes.chunks));
}

fn bytes(page: &mut Page, tables: &[TableStatus]) {
    let mut gauge = |name, help, of: &dyn Fn(&TableStatus) -> u64| {
        each(page, name, help, tables, &|it| Some(of(it)));
    };
    gauge("relive_table_encoded_bytes", "Stored bytes of the table's chunks.", &|it| it.bytes.encoded_bytes);
    gauge("relive_table_raw_bytes", "Decoded bytes of the table's chunks.", &|it| it.bytes.raw_bytes);
    gauge("relive_table_resident_bytes", "Stored bytes of the table's chunks in memory.", &|it| {
        it.bytes.resident_bytes()
    });
    gauge("relive_table_spilled_bytes", "Stored bytes of the table's chunks on disk.", &|it| {
        it.bytes.spilled_bytes
    });
    gauge("relive_table_shared_bytes", "Stored bytes of chunks that other tables share.", &|it| {
        it.bytes.shared_bytes
    });
    gauge(
        "relive_table_referenced_bytes",
        "Stored bytes, counted once for each item that refers to them.",
        &|it| it.referenced_bytes,
    );
}

fn each<V: Into<Value>>(
    page: &mut Page,
    name: &'static str,
    help: &str,
    tables: &[TableStatus],
    of: &dyn Fn(&TableStatus) -> Option<V>,
) {
    let mut family = page.gauge(name, help);
    for table in tables {
        if let Some(value) = of(table) {
            family.with(&[("table", &table.info.config.name)], value);
        }
    }
}

/// All counters start at the table's creation or last reset.
fn counters(page: &mut Page, tables: &[TableStatus]) {
    let mut counter = |name, help, of: &dyn Fn(&TableStatus) -> i64| {
        let mut family = page.counter(name, help);
        tables.iter().for_each(|table| family.with(&[("table", &table.info.config.name)], of(table)));
    };
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    counter("relive_inserts_total", "Inserts of new items.", &|it| it.info.inserts);
    counter("relive_samples_total", "Samples.", &|it| it.info.samples);
    counter("relive_deletes_total", "Removed items, for any reason.", &|it| it.info.deletes);
    counter("relive_unique_samples_total", "Items sampled at least once.", &|it| {
        signed(it.info.num_unique_samples)
    });
    counter("relive_deleted_episodes_total", "Episodes whose last data was removed.", &|it| {
        signed(it.info.num_deleted_episodes)
    });
    counter(
        "relive_undelivered_samples_total",
        "Samples that were taken for a caller, but could not be sent.",
        &|it| signed(it.undelivered_samples),
    );
}

fn limiter(page: &mut Page, tables: &[TableStatus]) {
    let mut gauge = |name, help, of: &dyn Fn(&TableStatus) -> f64| {
        each(page, name, help, tables, &|it| Some(of(it)));
    };
    let cursor = "The limiter's cursor: inserts times samples per insert, minus samples; each insert counts with the ratio at its time.";
    gauge("relive_limiter_cursor", cursor, &|it| it.limiter_cursor);
    let limits = |it: &TableStatus| it.info.config.rate_limiter;
    gauge("relive_limiter_min_diff", "Samples wait below this cursor.", &|it| bound(limits(it).min_diff));
    gauge("relive_limiter_max_diff", "Inserts wait above this cursor.", &|it| bound(limits(it).max_diff));
    gauge("relive_limiter_samples_per_insert", "Samples per insert that the limiter maintains.", &|it| {
        limits(it).samples_per_insert
    });
    gauge("relive_limiter_min_items", "Items that the table needs before it can be sampled.", &|it| {
        limits(it).min_size_to_sample as f64
    });
}

/// Bounds that no cursor reaches, such as dm-reverb's 1e300, are treated as no bound.
fn bound(diff: f64) -> f64 {
    if diff.abs() < UNREACHABLE_CURSOR { diff } else { diff.signum() * f64::INFINITY }
}

fn waiters(page: &mut Page, tables: &[TableStatus]) {
    let operations = [("insert", Operation::Insert), ("sample", Operation::Sample)];
    let mut put = |name, help, of: &dyn Fn(&TableStatus, Operation) -> f64| {
        let mut family = page.gauge(name, help);
        for table in tables {
            for (label, operation) in operations {
                let labels = [("table", table.info.config.name.as_str()), ("operation", label)];
                family.with(&labels, of(table, operation));
            }
        }
    };
    put("relive_table_waiters", "Waiting calls.", &|table, operation| match operation {
        Operation::Insert => table.waiting_inserts as f64,
        Operation::Sample => table.waiting_samples as f64,
    });
    put("relive_table_longest_wait_seconds", "Longest current wait of a call.", &|table, operation| {
        let first = table.waiters.iter().find(|waiter| waiter.operation == operation);
        first.map_or(0.0, |waiter| waiter.waiting.as_secs_f64())
    });
    put("relive_table_paused", "Whether an operator has paused the operation.", &|table, operation| {
        let paused = match operation {
            Operation::Insert => table.paused.inserts,
            Operation::Sample => table.paused.samples,
        };
        f64::from(u8::from(paused))
    });
}
