//! Orders to the workers of a synchronous plan: which round to perform, and with which weights.

use std::time::Duration;

use relive_client::blocking::{Client, Sampler};
use relive_client::{Nest, SamplerOptions, Tensor};
use relive_table::TableConfig;

use super::item::{self, ShouldContinue};
use super::weights::Stamp;
use crate::{Result, RlError};

/// An order for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) round: u64,
    /// The weights for the round.
    pub(crate) weights: Stamp,
}

/// Returns the table of a worker's next order. A newer order replaces one that the worker has not read, so orders never
/// wait for a worker that is away.
pub(crate) fn table(worker: usize) -> TableConfig {
    TableConfig::new(name(worker)).max_size(1).max_times_sampled(1)
}

fn name(worker: usize) -> String {
    format!("orders/{worker}")
}

/// Sends an order to several workers concurrently. A worker that receives an order again skips it: it has performed the
/// round, and its result is in the table of results.
pub(crate) fn give(
    client: &Client,
    workers: &[usize],
    order: Order,
    should_continue: ShouldContinue<'_>,
) -> Result<()> {
    if workers.is_empty() {
        return Ok(());
    }
    let leaf = |number: u64| Nest::Leaf(Tensor::scalar(number));
    let Order { round, weights: Stamp { epoch, version } } = order;
    let step = Nest::dict([("epoch", leaf(epoch)), ("round", leaf(round)), ("version", leaf(version))]);
    let tables: Vec<String> = workers.iter().map(|worker| name(*worker)).collect();
    item::insert(client, &tables.iter().map(String::as_str).collect::<Vec<_>>(), &step, should_continue)
}

/// The orders that a worker receives.
pub(crate) struct Orders(Sampler);

impl Orders {
    pub(crate) fn of(client: &Client, worker: usize) -> Result<Orders> {
        let options = SamplerOptions::default().num_workers(1).max_in_flight_samples_per_worker(1);
        Ok(Orders(client.sampler(&name(worker), options)?))
    }

    /// Returns the next order, or `None` if none arrives in time.
    pub(crate) fn next_within(&mut self, timeout: Duration) -> Result<Option<Order>> {
        let Some(columns) = item::next(&mut self.0, timeout)? else { return Ok(None) };
        let number = |column: usize| {
            let numbers = columns.get(column).map(Tensor::to_vec::<u64>).transpose();
            let numbers = numbers.map_err(|error| RlError::state("an order", error))?;
            numbers.and_then(|numbers| numbers.first().copied()).ok_or_else(|| {
                RlError::state("an order", format_args!("{} columns instead of 3 numbers", columns.len()))
            })
        };
        let weights = Stamp { epoch: number(0)?, version: number(2)? };
        Ok(Some(Order { round: number(1)?, weights }))
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn orders_do_not_wait_for_a_worker_that_is_away() {
        let engine = Engine::builder().table(table(0)).build().unwrap();
        let client = Client::in_process(engine).unwrap();
        let order = |round| Order { round, weights: Stamp { epoch: 1, version: round } };
        for round in 0..2_000 {
            give(&client, &[0], order(round), &|| true).unwrap();
        }
        let mut orders = Orders::of(&client, 0).unwrap();
        assert_eq!(orders.next_within(Duration::from_secs(10)).unwrap(), Some(order(1_999)));
        assert_eq!(orders.next_within(Duration::from_millis(1)).unwrap(), None, "it is read once");
    }
}
