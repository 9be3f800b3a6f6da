//! The same tables, over every transport and in process.

use std::time::Duration;

use relive::{Client, ClientOptions, TableConfig, Tensor, Transport, TransportChoice};
use relive_engine::{Engine, EngineBuilder, SampleRequest};
use relive_table::Sampled;

use crate::common::{LONG, TestServer, WAYS, client_by};

/// Tables and a client for them.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) engine: Engine,
    server: Option<(TestServer, TransportChoice)>,
}

impl Place {
    /// Returns a place for each transport to a server of these tables, and one for tables in process.
    pub(crate) async fn every(tables: &[TableConfig]) -> Vec<Place> {
        let mut places = vec![Place::local(tables)];
        for way in WAYS {
            places.push(Place::remote(tables, way).await);
        }
        places
    }

    async fn remote(tables: &[TableConfig], way: TransportChoice) -> Place {
        let server = TestServer::start(tables.to_vec()).await;
        let client = client_by(way, server.address, LONG);
        Place { client, engine: server.engine().clone(), server: Some((server, way)) }
    }

    pub(crate) fn local(tables: &[TableConfig]) -> Place {
        let builder = tables.iter().cloned().fold(Engine::builder(), EngineBuilder::table);
        let engine = builder.build().unwrap();
        let options = ClientOptions::default().timeout(LONG);
        Place { client: Client::in_process_with(engine.clone(), options), engine, server: None }
    }

    /// Returns another client for the same tables, with its own timeout.
    pub(crate) fn client_with(&self, timeout: Duration) -> Client {
        match &self.server {
            Some((server, way)) => client_by(*way, server.address, timeout),
            None => {
                let options = ClientOptions::default().timeout(timeout);
                Client::in_process_with(self.engine.clone(), options)
            }
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        self.client.transport() == Transport::InProcess
    }

    pub(crate) fn size(&self, table: &str) -> u64 {
        self.engine.table(table).unwrap().info().current_size
    }

    /// Samples directly from the engine, and returns the columns of each sample.
    pub(crate) async fn read(&self, table: &str, samples: usize) -> Vec<Vec<Tensor>> {
        let mut read = Vec::new();
        while read.len() < samples {
            let sampled = self.sample(table, samples - read.len()).await;
            read.extend(sampled.iter().map(|sample| sample.item.trajectory.decode().unwrap()));
        }
        read
    }

    async fn sample(&self, table: &str, limit: usize) -> Vec<Sampled> {
        let who = "test".into();
        let request = SampleRequest { limit, max_bytes: u64::MAX, timeout: Some(LONG), who };
        self.engine.table(table).unwrap().sample(request).await.unwrap()
    }

    /// Samples one item directly from a table.
    pub(crate) async fn sample_one(&self, table: &str) -> Sampled {
        self.sample(table, 1).await.remove(0)
    }

    /// Returns the only column of each sample, as i64.
    pub(crate) async fn read_values(&self, table: &str, samples: usize) -> Vec<Vec<i64>> {
        let read = self.read(table, samples).await;
        read.iter().map(|columns| columns[0].to_vec().unwrap()).collect()
    }
}
