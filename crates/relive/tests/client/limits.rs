//! Tests that a writer's memory is bounded, and that no writer deadlocks on its own bound.

use std::time::Duration;

use crate::common::{LONG, TestServer, client, leaf};
use relive::{
    Client, ErrorKind, RateLimiterConfig, TableConfig, Tensor, TrajectoryWriter, TrajectoryWriterOptions,
};

const SHORT: Duration = Duration::from_millis(300);

/// Returns a table that accepts one item and then waits for a sample.
fn narrow() -> TableConfig {
    TableConfig::new("t").rate_limiter(RateLimiterConfig {
        samples_per_insert: 1.0,
        min_size_to_sample: 1,
        min_diff: 0.0,
        max_diff: 1.0,
    })
}

async fn add(writer: &mut TrajectoryWriter, step: relive::Nest<Tensor>) -> relive::Result<u64> {
    writer.append(&step)?;
    let newest = writer.history().column_at(0)?.slice(-1..)?;
    writer.create_item("t", 1.0, newest).await
}

fn impatient(server: &TestServer) -> Client {
    client(server.address, SHORT)
}

#[tokio::test]
async fn items_beyond_the_limit_wait_and_then_fail() {
    let server = TestServer::start([narrow()]).await;
    let options = TrajectoryWriterOptions::new(1).max_pending_items(4);
    let mut writer = impatient(&server).trajectory_writer(options).unwrap();
    add(&mut writer, leaf(0_i64)).await.unwrap();
    writer.flush(LONG).await.unwrap();
    for i in 1..=4_i64 {
        add(&mut writer, leaf(i)).await.unwrap();
    }
    let error = add(&mut writer, leaf(5_i64)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("4 items not confirmed"), "{error}");
    assert_eq!(writer.pending_items(), 4);

    // Samples unblock the other items; the rejected item was not created.
    let reader = server.client();
    let samples = reader.sample("t", 5).await.unwrap();
    assert_eq!(samples.len(), 5);
    writer.flush(LONG).await.unwrap();
    assert_eq!(reader.server_info().await.unwrap().tables[0].current_size, 5);
    writer.close().await.unwrap();
}

#[tokio::test]
async fn bytes_beyond_the_limit_wait_but_a_single_large_item_passes() {
    let server = TestServer::start([narrow()]).await;
    let options = TrajectoryWriterOptions::new(1).max_pending_bytes(1000);
    let mut writer = impatient(&server).trajectory_writer(options).unwrap();
    let large = || {
        let values: Vec<u64> = (0..1000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        relive::Nest::Leaf(Tensor::from_slice(&values, [1000]).unwrap())
    };
    add(&mut writer, large()).await.unwrap();
    writer.flush(LONG).await.unwrap();
    add(&mut writer, large()).await.unwrap();
    assert_eq!(add(&mut writer, large()).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(server.client().sample("t", 2).await.unwrap().len(), 2);
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_full_writer_finishes_the_chunks_it_waits_for() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let options = TrajectoryWriterOptions::new(100).chunk_length(100).max_pending_items(2);
    let mut writer = server.client().trajectory_writer(options).unwrap();
    // No chunk becomes full in this test.
    for i in 0..10_i64 {
        add(&mut writer, leaf(i)).await.unwrap();
    }
    writer.close().await.unwrap();
    assert_eq!(server.client().server_info().await.unwrap().tables[0].current_size, 10);
}

#[tokio::test]
async fn flush_until_leaves_some_behind() {
    let server = TestServer::start([narrow()]).await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    for i in 0..3_i64 {
        add(&mut writer, leaf(i)).await.unwrap();
    }
    writer.flush_until(2, LONG).await.unwrap();
    assert!(writer.flush(SHORT).await.unwrap_err().is_timeout());
    let error = writer.end_episode(true, SHORT).await.unwrap_err();
    assert_eq!((error.kind(), writer.episode_steps()), (ErrorKind::Timeout, 3));
    assert_eq!(server.client().sample("t", 3).await.unwrap().len(), 3);
    writer.end_episode(true, LONG).await.unwrap();
    assert_eq!(writer.episode_steps(), 0);
}

#[tokio::test]
async fn long_histories_with_few_references_stay_small() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
    for i in 0..1000_i64 {
        writer.append(&leaf(i)).unwrap();
    }
    let column = writer.history().column_at(0).unwrap();
    assert_eq!(column.len(), 1000);
    assert!(column.slice(-2..).is_ok());
    let error = column.slice(..).unwrap_err();
    assert!(error.to_string().contains("no longer available"), "{error}");
    assert!(column.slice(..3).is_err() && column.step(-3).is_err());
    writer.close().await.unwrap();
}
