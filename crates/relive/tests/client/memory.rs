//! Tests writers that reach the memory limit, over TCP and in process.

use std::time::{Duration, Instant};

use relive::{
    Client, ClientOptions, ErrorKind, Nest, Server, TableConfig, Tensor, TrajectoryWriter,
    TrajectoryWriterOptions,
};
use relive_engine::Engine;

use crate::common::LONG;

/// The size of a step in bytes.
const STEP: usize = 4_000;

/// Writes one step as an item.
async fn write(writer: &mut TrajectoryWriter, value: u8) -> Result<u64, relive::Error> {
    // Pseudorandom bytes, which no codec can compress.
    let mut state = u64::from(value) + 1;
    let noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let bytes: Vec<u8> = std::iter::repeat_with(noise).take(STEP).collect();
    let step = Tensor::from_slice(&bytes, [4_000]).unwrap();
    writer.append(&Nest::Leaf(step))?;
    let step = writer.history().column_at(0)?.step(-1)?;
    writer.create_item("t", 1.0, step).await
}

fn table() -> TableConfig {
    TableConfig::new("t")
}

fn options() -> TrajectoryWriterOptions {
    TrajectoryWriterOptions::new(1).chunk_length(1)
}

#[tokio::test]
async fn a_local_writer_waits_for_memory_and_continues() {
    let engine = Engine::builder().table(table()).max_bytes(10_000).build().unwrap();
    let client = Client::in_process(engine.clone());
    let mut writer = client.trajectory_writer(options()).unwrap();
    let mut keys = Vec::new();
    for value in 0..3 {
        keys.push(write(&mut writer, value).await.unwrap());
    }
    assert!(engine.ledger().snapshot().resident_bytes() > 10_000);
    let writing = tokio::spawn(async move {
        let key = write(&mut writer, 9).await;
        (key, writer)
    });
    let seen = async {
        while engine.memory().waiters.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, seen).await.expect("the writer waits");
    let status = client.status().await.unwrap();
    assert_eq!(status.memory.max_bytes, Some(10_000));
    let waiter = &status.memory.waiters[0];
    assert!(waiter.who.starts_with("process ") && waiter.reason.starts_with("server memory"), "{waiter:?}");
    assert!(status.memory.process_bytes.is_some_and(|bytes| bytes > 10_000));
    let chunks = status.table("t").unwrap().chunks;
    assert_eq!((chunks.chunks, chunks.shared_bytes, chunks.spilled_bytes), (3, 0, 0));
    assert!(chunks.resident_bytes() >= 3 * STEP as u64 && status.chunks.chunks >= 3);

    client.delete_items("t", &keys).await.unwrap();
    let (key, mut writer) = tokio::time::timeout(LONG, writing).await.unwrap().unwrap();
    key.unwrap();
    writer.close().await.unwrap();
    assert_eq!(engine.table("t").unwrap().info().current_size, 1);
}

#[tokio::test]
async fn a_local_writer_can_retry_after_a_timed_out_wait() {
    let builder = Engine::builder().table(table()).max_bytes(5_000).max_bytes_wait(Duration::from_millis(50));
    let engine = builder.build().unwrap();
    let client = Client::in_process(engine.clone());
    let mut writer = client.trajectory_writer(options()).unwrap();
    write(&mut writer, 0).await.unwrap();
    write(&mut writer, 1).await.expect("its own step does not hold it back");
    let error = write(&mut writer, 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    let text = error.to_string();
    for part in ["create_item: server memory: chunks take", "max_bytes of the server is 5.0 kB", "t (8.0 kB)"]
    {
        assert!(text.contains(part), "{text}");
    }
    client.reset("t").await.unwrap();
    write(&mut writer, 3).await.unwrap();
    writer.close().await.unwrap();
}

#[tokio::test]
async fn the_client_timeout_also_ends_the_wait() {
    let engine = Engine::builder().table(table()).max_bytes(5_000).build().unwrap();
    let client =
        Client::in_process_with(engine.clone(), ClientOptions::default().timeout(Duration::from_millis(50)));
    let mut writer = client.trajectory_writer(options()).unwrap();
    write(&mut writer, 0).await.unwrap();
    write(&mut writer, 1).await.unwrap();
    let error = write(&mut writer, 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("server memory: chunks take"), "{error}");
    assert!(engine.memory().waiters.is_empty());
    engine.close();
    let error = write(&mut writer, 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "a closed engine holds nobody back: {error}");
}

#[tokio::test]
async fn a_remote_writer_without_room_gets_an_error_after_the_timeout() {
    let server = Server::builder()
        .table(table())
        .max_bytes(2 * STEP as u64)
        .max_bytes_wait(Duration::from_millis(100))
        .bind(":0")
        .await
        .unwrap();
    let client = Client::connect(server.address()).unwrap();
    let mut writer = client.trajectory_writer(options()).unwrap();
    for value in 0..2 {
        write(&mut writer, value).await.unwrap();
        writer.flush(LONG).await.unwrap();
    }
    write(&mut writer, 2).await.unwrap();
    let started = Instant::now();
    let error = writer.flush(LONG).await.unwrap_err();
    assert!(started.elapsed() < LONG);
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert!(error.to_string().contains("raise the server's max_bytes"), "{error}");
    let status = client.status().await.unwrap();
    let table = status.table("t").unwrap();
    assert_eq!((table.info.current_size, table.info.config.max_bytes), (2, None));
    assert_eq!((status.memory.max_bytes, status.memory.waiters.len()), (Some(2 * STEP as u64), 0));
    drop(writer);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_item_larger_than_its_table_is_refused() {
    let small = || table().max_bytes(STEP as u64 / 2);
    let server = Server::builder().table(small()).bind("127.0.0.1:0").await.unwrap();
    let remote = Client::connect(server.address()).unwrap();
    let local = Client::in_process(Engine::builder().table(small()).build().unwrap());
    for client in [remote, local] {
        let mut writer = client.trajectory_writer(options()).unwrap();
        let error = match write(&mut writer, 0).await {
            Err(error) => error,
            Ok(_) => writer.flush(LONG).await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.to_string().contains("but max_bytes is 2000; create items or chunks of fewer steps"),
            "{error}"
        );
        let status = client.status().await.unwrap();
        assert_eq!(status.table("t").unwrap().info.config.max_bytes, Some(2_000));
    }
    server.stop().await.unwrap();
}
