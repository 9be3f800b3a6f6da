//! Tests that samples from tables in this process use the same calls as over TCP, but without prefetching.

use std::time::Duration;

use crate::common::{LONG, TestServer, leaf, values};
use relive::{ErrorKind, SamplerOptions, SelectorKind, TableConfig};

async fn queue_of(items: i64) -> TestServer {
    let queue = TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1);
    let server = TestServer::start([queue]).await;
    for item in 0..items {
        server.client().insert(&leaf(item), &[("t", 1.5)]).await.unwrap();
    }
    server
}

#[tokio::test]
async fn local_and_remote_samples_have_equal_info() {
    let server = TestServer::start([TableConfig::new("t").sampler(SelectorKind::Fifo)]).await;
    server.client().insert(&leaf(7_i64), &[("t", 1.5)]).await.unwrap();
    let remote = server.client().sample("t", 1).await.unwrap().remove(0);
    let local = server.client_in_process().sample("t", 1).await.unwrap().remove(0);
    let expected = relive::SampleInfo { times_sampled: 2, ..*remote.info() };
    assert_eq!(*local.info(), expected);
    assert_eq!((local.table(), local.num_columns()), (remote.table(), remote.num_columns()));
    assert_eq!(local.inserted_at(), remote.inserted_at());
    assert!(local.inserted_at().is_some());
    assert_eq!(local.columns().unwrap(), remote.columns().unwrap());
    assert_eq!(local.trajectory().unwrap().num_slices(), 1);
    assert_eq!(local.encoded_size_bytes(), remote.encoded_size_bytes());
}

#[tokio::test]
async fn in_process_samplers_do_not_prefetch() {
    let server = queue_of(5).await;
    let client = server.client_in_process();
    let mut sampler = client.sampler("t", SamplerOptions::default().max_samples(4)).unwrap();
    assert_eq!(values(&[sampler.next().await.unwrap().unwrap()]), [[0]]);
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 4);
    assert_eq!(values(&sampler.next_batch(2).await.unwrap()), [[1], [2]]);
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 2);
    assert_eq!(values(&sampler.next_batch(2).await.unwrap()), [[3]], "the fourth is the last");
    assert!(sampler.next().await.is_none());
}

#[tokio::test]
async fn a_dropped_call_for_a_batch_loses_no_samples() {
    for is_remote in [false, true] {
        let server = queue_of(7).await;
        let client = if is_remote { server.client() } else { server.client_in_process() };
        let mut sampler = client.sampler("t", SamplerOptions::default()).unwrap();
        assert_eq!(values(&[sampler.next().await.unwrap().unwrap()]), [[0]]);
        for _ in 0..3 {
            let dropped = tokio::time::timeout(Duration::ZERO, sampler.next_batch(20)).await;
            dropped.expect_err("there are only 7 items");
            let timed = sampler.next_batch_with_timeout(20, LONG);
            tokio::time::timeout(Duration::ZERO, timed).await.expect_err("as above");
        }
        for item in 7..10_i64 {
            server.client().insert(&leaf(item), &[("t", 1.5)]).await.unwrap();
        }
        assert_eq!(values(&sampler.next_batch(2).await.unwrap()), [[1], [2]]);
        let rest: Vec<_> = (3..10).map(|item| [item]).collect();
        assert_eq!(values(&sampler.next_batch(7).await.unwrap()), rest);
    }
}

#[tokio::test]
async fn a_timeout_is_reported_and_the_sampler_continues() {
    let server = queue_of(0).await;
    let client = server.client_in_process();
    let options = SamplerOptions::default().rate_limiter_timeout(Duration::from_millis(1));
    let mut sampler = client.sampler("t", options).unwrap();
    let error = sampler.next().await.unwrap().unwrap_err();
    assert!(error.is_timeout());
    assert!(error.to_string().contains("Rate Limiter: Timeout exceeded"), "{error}");
    client.with_timeout(Duration::ZERO).sample("t", 1).await.expect_err("the table is empty");
    server.client().insert(&leaf(3_i64), &[("t", 1.0)]).await.unwrap();
    assert_eq!(values(&[sampler.next().await.unwrap().unwrap()]), [[3]]);
}

#[tokio::test]
async fn an_abandoned_wait_can_be_repeated() {
    let server = queue_of(0).await;
    let mut sampler = server.client_in_process().sampler("t", SamplerOptions::default()).unwrap();
    let error = sampler.next_with_timeout(Duration::from_millis(1)).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    server.client().insert(&leaf(4_i64), &[("t", 1.0)]).await.unwrap();
    assert_eq!(values(&[sampler.next_with_timeout(LONG).await.unwrap().unwrap()]), [[4]]);
    let status = server.client().status().await.unwrap();
    assert_eq!(status.tables[0].undelivered_samples, 0);
}

#[tokio::test]
async fn an_abandoned_wait_receives_no_timeout() {
    let server = queue_of(0).await;
    let options = SamplerOptions::default().rate_limiter_timeout(Duration::from_millis(100));
    let mut sampler = server.client().sampler("t", options).unwrap();
    sampler.next_with_timeout(Duration::from_millis(1)).await.unwrap().unwrap_err();
    // The limiter's timeout passes while nobody waits.
    let watching = server.client_in_process();
    for is_waiting in [true, false] {
        while watching.status().await.unwrap().tables[0].waiters.is_empty() == is_waiting {
            tokio::task::yield_now().await;
        }
    }
    server.client().insert(&leaf(5_i64), &[("t", 1.0)]).await.unwrap();
    assert_eq!(values(&[sampler.next_with_timeout(LONG).await.unwrap().unwrap()]), [[5]]);
}

#[tokio::test]
async fn unknown_and_closed_tables_are_refused() {
    let server = queue_of(0).await;
    let client = server.client_in_process();
    let error = client.sampler("no", SamplerOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let mut sampler = client.sampler("t", SamplerOptions::default()).unwrap();
    let blocked = tokio::spawn(async move { sampler.next().await });
    while client.status().await.unwrap().tables[0].waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let error = blocked.await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
}
