//! Tests that batches arrive complete and in order, and that none of their samples are lost.

use std::time::Duration;

use crate::common::{LONG, Proxy, TestServer, leaf, values};
use relive::{
    BatchOptions, BatchSampler, Client, ErrorKind, SampleBatch, SampleInfo, SelectorKind, TableConfig,
};

const SHORT: Duration = Duration::from_millis(20);

async fn start() -> TestServer {
    TestServer::start([TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)]).await
}

async fn insert(server: &TestServer, items: std::ops::Range<i64>) {
    for item in items {
        server.client().insert(&leaf(item), &[("t", 1.0)]).await.unwrap();
    }
}

async fn next(batches: &mut BatchSampler) -> SampleBatch {
    batches.next_within(Some(LONG)).await.expect("no end yet").unwrap()
}

fn numbers(batch: &SampleBatch) -> Vec<i64> {
    values(batch.samples()).concat()
}

async fn size(client: &Client) -> u64 {
    client.server_info().await.unwrap().table("t").unwrap().current_size
}

#[tokio::test]
async fn exact_batches_remove_exactly_the_items_they_need() {
    let server = start().await;
    insert(&server, 0..20).await;
    for (client, first) in [(server.client(), 0), (server.client_in_process(), 10)] {
        let mut batches = client.batches("t", BatchOptions::new(4).prefetch(0)).unwrap();
        assert_eq!((batches.table(), batches.prefetched()), ("t", (0, 0)));
        let before = size(&client).await;
        assert_eq!(numbers(&next(&mut batches).await), [first, first + 1, first + 2, first + 3]);
        assert_eq!(size(&client).await, before - 4);
        assert_eq!(numbers(&next(&mut batches).await), [first + 4, first + 5, first + 6, first + 7]);
        assert_eq!((size(&client).await, batches.prefetched()), (before - 8, (0, 0)));
        drop(batches);
        client.sample("t", 2).await.unwrap();
    }
}

#[tokio::test]
async fn a_timeout_keeps_a_partial_batch() {
    let server = start().await;
    let mut first = 0;
    for client in server.every_client() {
        for prefetch in [0, 2] {
            insert(&server, first..first + 3).await;
            let options = BatchOptions::new(5).prefetch(prefetch).max_batches(1).timeout(SHORT);
            let mut batches = client.batches("t", options).unwrap();
            let error = loop {
                let error = batches.next().await.unwrap().unwrap_err();
                assert!(error.is_timeout(), "{error}");
                // Over TCP, the first three samples may take longer than the timeout to arrive.
                if size(&client).await == 0 && error.to_string().contains("3 of 5") {
                    break error;
                }
            };
            assert!(error.to_string().contains("Rate Limiter: Timeout exceeded"), "{error}");
            insert(&server, first + 3..first + 5).await;
            assert_eq!(numbers(&next(&mut batches).await), (first..first + 5).collect::<Vec<_>>());
            assert!(batches.next().await.is_none());
            first += 5;
        }
    }
}

#[tokio::test]
async fn dropped_waits_lose_no_samples() {
    let server = start().await;
    let mut first = 0;
    for client in server.every_client() {
        let mut batches = client.batches("t", BatchOptions::new(8).prefetch(0)).unwrap();
        for item in first..first + 8 {
            // The waits may end at any moment, even during the insert.
            let inserting = insert(&server, item..item + 1);
            tokio::select! {
                biased;
                batch = batches.next(), if item < first + 7 => panic!("only {item} are there: {batch:?}"),
                () = inserting => {}
            }
        }
        assert_eq!(numbers(&next(&mut batches).await), (first..first + 8).collect::<Vec<_>>());
        first += 8;
    }
    let status = server.client().status().await.unwrap();
    assert_eq!(status.tables[0].undelivered_samples, 0);
}

#[tokio::test]
async fn exact_batches_fall_back_to_grpc() {
    let server = start().await;
    insert(&server, 0..5).await;
    let proxy = Proxy::only_grpc(server.address).await;
    let client = server.client();
    let mut batches = proxy.client().batches("t", BatchOptions::new(2).prefetch(0).max_batches(3)).unwrap();
    for (first, left) in [(0, 3), (2, 1)] {
        assert_eq!(numbers(&next(&mut batches).await), [first, first + 1]);
        assert_eq!(size(&client).await, left);
    }
    let error = batches.next_within(Some(SHORT)).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    insert(&server, 5..6).await;
    assert_eq!(numbers(&next(&mut batches).await), [4, 5]);
    assert!(batches.next().await.is_none());
}

/// Waits until exactly `count` requests are waiting in the table.
async fn waiters(client: &Client, count: usize) {
    let reached = async {
        while client.status().await.unwrap().tables[0].waiters.len() != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, reached).await.unwrap();
}

#[tokio::test]
async fn an_abandoned_wait_withdraws_its_request() {
    let server = start().await;
    let mut first = 0;
    for client in server.every_client() {
        let mut batches = client.batches("t", BatchOptions::new(3).prefetch(0)).unwrap();
        insert(&server, first..first + 1).await;
        let is_seen = async {
            waiters(&client, 1).await;
            while size(&client).await > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            batch = batches.next() => panic!("one is there: {batch:?}"),
            () = is_seen => {}
        }
        waiters(&client, 0).await;
        insert(&server, first + 1..first + 3).await;
        assert_eq!(size(&client).await, 2, "nobody waits, so nobody takes");
        assert_eq!(numbers(&next(&mut batches).await), [first, first + 1, first + 2]);
        first += 3;
    }
}

#[tokio::test]
async fn prefetched_batches_end_after_max_batches() {
    let server = start().await;
    insert(&server, 0..20).await;
    let client = server.client();
    let options = BatchOptions::new(3).prefetch(2).max_batches(4).num_workers(1);
    let mut batches = client.batches("t", options).unwrap();
    while batches.prefetched() != (2, 0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(size(&client).await, 14, "two batches ahead, not more");
    let mut all = Vec::new();
    while let Some(batch) = batches.next().await {
        all.extend(numbers(&batch.unwrap()));
    }
    assert_eq!(all, (0..12).collect::<Vec<_>>());
    assert!(batches.next().await.is_none());
    assert_eq!(size(&client).await, 8, "never more than for four batches");

    let mut local = server.client_in_process().batches("t", BatchOptions::new(3).prefetch(1)).unwrap();
    assert_eq!(numbers(&next(&mut local).await), [12, 13, 14]);
    assert_eq!((size(&client).await, local.prefetched()), (5, (0, 0)), "nothing ahead in the same process");
}

#[tokio::test]
async fn several_workers_fill_one_batch() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    insert(&server, 0..3).await;
    let options = BatchOptions::new(100).num_workers(3);
    let mut batches = server.client().batches("t", options).unwrap();
    for _ in 0..5 {
        let batch = next(&mut batches).await;
        assert_eq!((batch.len(), batch.infos().len()), (100, 100));
        assert!(batch.infos().all(|info| info.table_size == 3));
    }
}

#[tokio::test]
async fn a_stopped_server_ends_a_wait_at_once() {
    let server = start().await;
    let mut local = server.client_in_process().batches("t", BatchOptions::new(2)).unwrap();
    let client = server.client_in_process();
    let blocked = tokio::spawn(async move { (local.next().await, local.next().await) });
    while client.status().await.unwrap().tables[0].waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let (first, second) = blocked.await.unwrap();
    for error in [first.unwrap().unwrap_err(), second.unwrap().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
    }
}

#[tokio::test]
async fn a_stopped_server_is_reported_after_the_timeout() {
    let server = start().await;
    let options = BatchOptions::new(2).timeout(Duration::from_millis(300));
    let mut batches = server.client().batches("t", options).unwrap();
    assert!(batches.next_within(Some(SHORT)).await.unwrap().unwrap_err().is_timeout());
    server.stop().await;
    let error = batches.next_within(Some(LONG)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn unknown_tables_and_wrong_options() {
    let server = start().await;
    let error = server.client_in_process().batches("no", BatchOptions::new(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let mut batches = server.client().batches("no", BatchOptions::new(1)).unwrap();
    let error = batches.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    for client in server.every_client() {
        let error = client.batches("t", BatchOptions::new(0)).unwrap_err();
        assert!(error.to_string().contains("batch_size must be at least 1"), "{error}");
    }
}

#[tokio::test]
async fn small_items_are_copied_as_rows_from_the_second_batch_on() {
    let server = TestServer::start([TableConfig::new("t").sampler(SelectorKind::Lifo)]).await;
    insert(&server, 0..5).await;
    let client = server.client_in_process();
    let options = BatchOptions::new(4).max_batches(4);
    let mut batches = client.batches("t", options).unwrap();
    let handed_out = next(&mut batches).await;
    assert!(handed_out.samples()[0].inserted_at().is_some());
    for item in [5, 6] {
        insert(&server, item..item + 1).await;
        let copied = next(&mut batches).await;
        assert_eq!(copied.columns().unwrap(), handed_out.columns().unwrap());
        let mut bytes = vec![0; 32];
        copied.gather_into(0, &mut bytes).unwrap();
        assert_eq!(bytes, item.to_le_bytes().repeat(4));
        assert_eq!(copied.column_memory(0).unwrap().bytes(), bytes);
        let infos: Vec<SampleInfo> = copied.infos().collect();
        assert_eq!(infos[3].times_sampled, 4);
        assert_eq!((infos[0].table_size, infos[0].probability), (item.unsigned_abs() + 1, 1.0));
        assert_eq!(infos[0].key, client.sample("t", 1).await.unwrap()[0].info().key);
        assert_eq!(numbers(&copied), [item; 4]);
        assert!(copied.samples()[0].inserted_at() >= handed_out.samples()[0].inserted_at());
    }
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().num_unique_samples, 3);
    server.client().reset("t").await.unwrap();
    server.client().insert(&leaf(7.5), &[("t", 1.0)]).await.unwrap();
    let other = next(&mut batches).await;
    assert_eq!(other.samples()[0].columns().unwrap()[0].to_vec::<f64>().unwrap(), [7.5]);
    assert!(batches.next().await.is_none(), "copied batches count, too");
}
