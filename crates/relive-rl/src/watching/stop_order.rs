//! Orders a run to stop, through its server.

use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{ErrorKind, Nest, Tensor};
use relive_table::TableConfig;

use crate::tables::item;
use crate::{Result, seeds};

/// The table with the newest order as its only item.
const TABLE: &str = "stop";

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn table() -> TableConfig {
    TableConfig::new(TABLE).max_size(1)
}

/// Orders the driver of a run to stop it, as Ctrl-C does. The driver notices within a second. `driver` is the `id` of
/// the `driver` in the output of [`look`](crate::run::look). If another driver has since taken over the run, that
/// driver continues.
///
/// # Errors
/// The server is lost, has no run, or does not permit this client to write.
pub fn order_stop(client: &Client, driver: u64) -> Result<()> {
    let step = Nest::dict([("driver", Nest::Leaf(Tensor::scalar(driver)))]);
    Ok(client.with_timeout(TIMEOUT).insert(&step, &[(TABLE, 1.0)])?)
}

/// Reads the orders to one driver.
#[derive(Debug)]
pub(crate) struct StopOrders {
    client: Client,
    id: u64,
    /// The number of orders at the last check.
    inserts: i64,
}

impl StopOrders {
    /// Creates the reader of orders to this driver, and assigns the driver a unique id.
    pub(crate) fn new(client: &Client) -> StopOrders {
        // The id must be exact as a float64, the type with which JavaScript and other languages read it from JSON.
        let id = seeds::unrepeatable() >> 11;
        StopOrders { client: client.clone(), id, inserts: 0 }
    }

    /// Returns the id of this driver.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the driver should stop the run.
    ///
    /// # Errors
    /// The server is lost, or the item is not an order.
    pub(crate) fn is_stop(&mut self) -> Result<bool> {
        let client = self.client.with_timeout(TIMEOUT);
        let info = match client.server_info() {
            // Other code waits for a slow server.
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(false),
            info => info?,
        };
        let Some(table) = info.table(TABLE).filter(|table| table.current_size > 0) else { return Ok(false) };
        if table.inserts == self.inserts {
            return Ok(false);
        }
        let Some(columns) = item::newest(&client, TABLE, TIMEOUT)? else { return Ok(false) };
        self.inserts = table.inserts;
        match columns.first().map(Tensor::to_vec::<u64>).transpose() {
            Ok(driver) => Ok(driver.is_some_and(|driver| driver.first() == Some(&self.id))),
            Err(error) => {
                tracing::warn!(
                    "ignored an invalid item in the table `{TABLE}`, which is for orders to stop the run: {error}"
                );
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;

    use super::*;

    #[test]
    fn a_stop_order_applies_to_the_named_driver_only() {
        let engine = Engine::builder().table(table()).build().unwrap();
        let client = Client::in_process(engine).unwrap();
        let [mut one, mut other] = [(); 2].map(|()| StopOrders::new(&client));
        assert!(!one.is_stop().unwrap());
        order_stop(&client, one.id()).unwrap();
        assert!(!other.is_stop().unwrap() && one.is_stop().unwrap());
        assert!(!one.is_stop().unwrap(), "it is seen once");
    }

    #[test]
    fn an_invalid_stop_order_is_ignored() {
        let client = Client::in_process(Engine::builder().table(table()).build().unwrap()).unwrap();
        let mut orders = StopOrders::new(&client);
        let step = Nest::Leaf(Tensor::from_slice(&[1_i64, 2], [2]).unwrap());
        client.insert(&step, &[(TABLE, 1.0)]).unwrap();
        assert!(!orders.is_stop().unwrap());
    }

    #[test]
    fn a_server_without_a_run_accepts_no_stop_orders() {
        let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
        let client = Client::in_process(engine).unwrap();
        assert!(order_stop(&client, 1).unwrap_err().to_string().contains("stop"));
        assert!(!StopOrders::new(&client).is_stop().unwrap());
    }
}
