//! All tables of a run with processes as workers.

use relive_table::TableConfig;

use crate::nodes;
use crate::tables::{job, lease, orders, results, run, weights};
use crate::watching::{log_tables, plan_table, stop_table};

/// Returns all tables for a run with the given number of workers, including its agent's.
pub(crate) fn of_run(own: Vec<TableConfig>, workers: usize) -> Vec<TableConfig> {
    let mut all = own;
    all.extend(worker_tables(workers));
    all
}

/// Returns the tables that are not the agent's.
pub(crate) fn worker_tables(workers: usize) -> impl Iterator<Item = TableConfig> {
    let own = [
        job::table(),
        weights::table(),
        results::table(),
        lease::table(),
        run::state_table(),
        run::counter_table(),
        plan_table(),
        stop_table(),
    ];
    let orders = (0..workers).map(orders::table);
    own.into_iter().chain(nodes::tables()).chain(orders).chain(log_tables(workers))
}

#[cfg(test)]
mod tests {
    use relive_client::blocking::Client;
    use relive_engine::Engine;
    use relive_table::{RateLimiterConfig, SelectorKind};

    use super::*;
    use crate::tables::server::{add, expect};

    #[test]
    fn tables_with_other_rules_are_refused() {
        let own = TableConfig::new("replay").sampler(SelectorKind::Prioritized { exponent: 0.6 });
        let added = |table: TableConfig| {
            let engine = Engine::builder().table(table).build().unwrap();
            let client = Client::in_process(engine).unwrap();
            let wanted: Vec<_> = std::iter::once(own.clone()).chain(worker_tables(2)).collect();
            add(&client, &wanted).and_then(|()| add(&client, &wanted)).and_then(|()| expect(&client, &wanted))
        };
        added(TableConfig::new("scratch")).unwrap();
        added(own.clone()).unwrap();
        let error = added(own.clone().max_size(5_000).sampler(SelectorKind::Fifo)).unwrap_err().to_string();
        assert!(error.contains("`replay`") && error.contains("relive table drop"), "{error}");
        assert!(error.contains("sampler is Fifo, but must be Prioritized(0.6)"), "{error}");
        assert!(error.contains("max_size is 5000, but must be 1000000"), "{error}");
        let error = added(own.clone().rate_limiter(RateLimiterConfig::queue(3))).unwrap_err().to_string();
        assert!(error.contains("rate limiter is 1 samples per insert after 1 items"), "{error}");
        let error = added(TableConfig::new("results")).unwrap_err().to_string();
        assert!(error.contains("max_times_sampled is 0, but must be 1"), "{error}");
        let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
        let error = expect(&Client::in_process(engine).unwrap(), &[own]).unwrap_err().to_string();
        assert!(error.contains("without the tables `replay`"), "{error}");
    }
}
