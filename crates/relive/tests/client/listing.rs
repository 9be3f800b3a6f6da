//! Tests that clients can list, fetch and wait for items without sampling them, both over the network and in process.

use crate::common::{TestServer, leaf, values};
use relive::{
    Client, ErrorKind, ItemInfo, RateLimiterConfig, SelectorKind, TableConfig, TrajectoryWriterOptions, Waits,
};

async fn start() -> (TestServer, Vec<u64>) {
    let server = TestServer::start([TableConfig::new("t").max_size(300)]).await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    let mut keys = Vec::new();
    for item in 0..305_i64 {
        writer.append(&leaf(item)).unwrap();
        let newest = writer.history().column("").unwrap().slice(-1..).unwrap();
        keys.push(writer.create_item("t", item as f64, newest).await.unwrap());
    }
    writer.close().await.unwrap();
    // The first five items were evicted. Another is deleted from the middle, so that items are stored out of order.
    server.client().delete_items("t", &[keys[100]]).await.unwrap();
    keys.remove(100);
    (server, keys.split_off(5))
}

async fn list(client: &Client, limit: usize) -> Vec<ItemInfo> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let page = client.items("t", from, limit).await.unwrap();
        assert!(page.items.len() == limit || page.next.is_none());
        all.extend(page.items);
        match page.next {
            Some(next) => from = next,
            None => return all,
        }
    }
}

#[tokio::test]
async fn pages_contain_every_item_once_in_insertion_order() {
    let (server, keys) = start().await;
    for client in [server.client(), server.client_in_process()] {
        for limit in [1, 7, 299, 1000] {
            let items = list(&client, limit).await;
            assert_eq!(items.iter().map(|item| item.key).collect::<Vec<_>>(), keys, "pages of {limit}");
        }
        let first = client.items("t", 0, 1).await.unwrap().items[0];
        assert_eq!((first.priority, first.times_sampled, first.num_columns, first.sequence), (5.0, 0, 1, 5));
        assert!(first.encoded_bytes > 0 && first.inserted_at.is_some());
    }
    assert_eq!(list(&server.client(), 50).await, list(&server.client_in_process(), 50).await);
    server.client().reset("t").await.unwrap();
    for client in [server.client(), server.client_in_process()] {
        let page = client.items("t", 0, 10).await.unwrap();
        assert_eq!((page.items.len(), page.next), (0, None));
    }
}

#[tokio::test]
async fn items_are_read_by_key_without_sampling() {
    let (server, keys) = start().await;
    for client in [server.client(), server.client_in_process()] {
        let asked = [keys[3], 17, keys[0], keys[3]];
        let found = client.get_items("t", &asked).await.unwrap();
        assert!(found[1].is_none());
        let there: Vec<_> = [0, 2, 3].iter().map(|at| found[*at].clone().unwrap()).collect();
        assert_eq!(values(&there), [[8], [5], [8]]);
        let info = there[0].info();
        assert_eq!((info.key, info.priority, info.times_sampled, info.table_size), (keys[3], 8.0, 0, 299));
        assert_eq!((info.probability, there[0].table()), (0.0, "t"));
        assert_eq!(client.get_items("t", &[]).await.unwrap().len(), 0);
        let all = client.get_items("t", &keys).await.unwrap();
        assert!(all.iter().flatten().map(|sample| sample.info().key).eq(keys.iter().copied()));
    }
    let info = server.client().server_info().await.unwrap();
    assert_eq!(info.table("t").unwrap().samples, 0);
}

#[tokio::test]
async fn unknown_tables() {
    let (server, _) = start().await;
    for client in [server.client(), server.client_in_process()] {
        let errors = [
            client.items("no", 0, 1).await.unwrap_err(),
            client.get_items("no", &[1]).await.unwrap_err(),
            client.waits("no").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains("Priority table no was not found"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_table_reports_what_it_waits_for() {
    let server = TestServer::start([TableConfig::new("t").rate_limiter(RateLimiterConfig::queue(1))]).await;
    let needs_items = Waits {
        sample: Some("needs 1 more items in the table (has 0, min_size_to_sample is 1)".to_owned()),
        insert: None,
    };
    for client in [server.client(), server.client_in_process()] {
        assert_eq!(client.waits("t").await.unwrap(), needs_items);
    }
    server.client().insert(&leaf(1_i64), &[("t", 1.0)]).await.unwrap();
    for client in [server.client(), server.client_in_process()] {
        let waits = client.waits("t").await.unwrap();
        assert_eq!(waits.sample, None);
        assert!(waits.insert.unwrap().contains("needs 1 more samples"), "the queue is full");
    }
}

#[tokio::test]
async fn without_replacement_every_item_is_sampled_once() {
    let table = TableConfig::new("t").sampler(SelectorKind::WithoutReplacement);
    let server = TestServer::start([table]).await;
    for item in 0..6_i64 {
        server.client().insert(&leaf(item), &[("t", 1.0)]).await.unwrap();
    }
    for client in [server.client(), server.client_in_process()] {
        let samples = client.sample("t", 6).await.unwrap();
        let probabilities: Vec<f64> = samples.iter().map(|sample| sample.info().probability).collect();
        assert_eq!(probabilities, [1.0 / 6.0, 1.0 / 5.0, 1.0 / 4.0, 1.0 / 3.0, 1.0 / 2.0, 1.0]);
        let mut seen = values(&samples).concat();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        let status = client.status().await.unwrap();
        assert_eq!(status.tables[0].info.config.sampler, SelectorKind::WithoutReplacement);
        assert_eq!(status.tables[0].info.config.remover, SelectorKind::Fifo);
    }
    // dm-reverb's own fields cannot express this.
    let info = server.client().server_info().await.unwrap();
    assert_eq!(info.table("t").unwrap().config.sampler, SelectorKind::WithoutReplacement);
}
