//! Tests streams that reach the bound on memory.
#![expect(clippy::unwrap_used, reason = "a refusal where none is due ends the test")]

use std::time::Duration;

use crate::common::{DUE, Inserter, Sampler, TestServer, chunk_of, item_over, step};
use relive_engine::Engine;
use relive_server::ServerOptions;
use relive_table::{SelectorKind, TableConfig};
use relive_wire::reverb::{InsertStreamRequest, MutatePrioritiesRequest, ServerInfoRequest};
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use relive_wire::v1::{DescribeRequest, DescribeResponse};
use tonic::Code;
use tonic::transport::Channel;

/// Returns a server with memory for a chunk of [`large`] and for a few chunks of one step.
async fn server(longest_wait: Duration) -> TestServer {
    let engine = Engine::builder()
        .table(TableConfig::new("t").sampler(SelectorKind::Fifo))
        .max_bytes(6_000)
        .max_bytes_wait(longest_wait)
        .build()
        .unwrap();
    TestServer::of(engine, ServerOptions::default().workers(1)).await
}

const FOR_EVER: Duration = Duration::from_secs(1_000);

/// Returns values that no codec compresses much.
fn large_values(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(state >> 48).unwrap())
    };
    std::iter::repeat_with(noise).take(count).collect()
}

/// Returns a request with one item of about 4,000 bytes.
fn large(key: u64) -> InsertStreamRequest {
    let values = large_values(key, 1_300);
    InsertStreamRequest {
        chunks: vec![chunk_of(key, &values)],
        items: vec![item_over("t", key, &[key], 1)],
        keep_chunk_keys: Vec::new(),
    }
}

async fn describe(channel: &Channel) -> DescribeResponse {
    let mut client = ReplayServiceClient::new(channel.clone());
    let response = tokio::time::timeout(DUE, client.describe(DescribeRequest {})).await;
    response.expect("calls go on").unwrap().into_inner()
}

/// Waits until `count` streams wait for memory.
async fn waiting(channel: &Channel, count: usize) -> DescribeResponse {
    let seen = async {
        loop {
            let described = describe(channel).await;
            if described.memory.as_ref().unwrap().waiters.len() == count {
                return described;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DUE, seen).await.expect("the streams wait")
}

async fn delete(server: &TestServer, keys: Vec<u64>) {
    let request = MutatePrioritiesRequest { table: "t".to_owned(), delete_keys: keys, ..Default::default() };
    server.client().await.mutate_priorities(request).await.unwrap();
}

#[tokio::test]
async fn a_stream_waiting_for_memory_blocks_nothing_else() {
    let server = server(FOR_EVER).await;
    let channel = server.channel().await;
    let mut client = server.client().await;
    let mut first = Inserter::open(&mut client).await;
    first.send(large(1));
    first.send(large(2));
    first.confirmed([1, 2]).await;
    let mut second = Inserter::open(&mut client).await;
    second.send(step("t", 3));
    let described = waiting(&channel, 1).await;

    let memory = described.memory.unwrap();
    assert!(memory.waiters[0].reason.starts_with("server memory: chunks take "), "{memory:?}");
    assert!(memory.waiters[0].who.starts_with("127.0.0.1:"));
    assert_eq!((memory.max_bytes, memory.process_bytes > 0), (6_000, true));
    let (table, all) = (&described.tables[0], described.chunks.unwrap());
    let chunks = table.chunks.unwrap();
    assert_eq!((chunks.chunks, chunks.encoded_bytes), (2, all.encoded_bytes));
    assert_eq!((all.shared_bytes, all.spilled_bytes), (0, 0));
    assert!(all.encoded_bytes > 6_000, "a request may go beyond the bound");

    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 1, -1);
    assert!(sampler.next().await.unwrap().is_some(), "samples go on");
    client.server_info(ServerInfoRequest {}).await.unwrap();

    delete(&server, vec![1]).await;
    second.confirmed([3]).await;
    assert!(waiting(&channel, 0).await.memory.unwrap().waiters.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_timed_out_stream_gets_the_reason_and_keeps_confirmed_items() {
    let server = server(Duration::from_millis(150)).await;
    let mut client = server.client().await;
    let idle = Inserter::open(&mut client).await;
    let mut inserter = Inserter::open(&mut client).await;
    for key in 1..=3 {
        inserter.send(large(key));
    }
    inserter.confirmed([1, 2]).await;
    let status = inserter.status().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    for part in ["server memory", "max_bytes of the server is 6.0 kB", "t (", "raise the server's max_bytes"]
    {
        assert!(status.message().contains(part), "{status}");
    }
    assert_eq!(server.engine.table("t").unwrap().info().inserts, 2);
    delete(&server, vec![1]).await;
    let mut idle = idle;
    idle.send(step("t", 9));
    idle.confirmed([9]).await;
    server.stop().await;
}

#[tokio::test]
async fn a_closed_stream_stops_waiting_for_memory() {
    let server = server(FOR_EVER).await;
    let channel = server.channel().await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(large(1));
    inserter.send(large(2));
    inserter.send(large(3));
    inserter.confirmed([1, 2]).await;
    waiting(&channel, 1).await;
    drop(inserter);
    waiting(&channel, 0).await;
    assert_eq!(describe(&channel).await.insert_streams, 0);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_the_wait() {
    let mut server = server(FOR_EVER).await;
    let channel = server.channel().await;
    let mut inserter = Inserter::open(&mut server.client().await).await;
    for key in 1..=3 {
        inserter.send(large(key));
    }
    inserter.confirmed([1, 2]).await;
    waiting(&channel, 1).await;
    server.begin_stop();
    assert_eq!(inserter.status().await.code(), Code::Unavailable);
    drop(channel);
    server.stop().await;
}

#[tokio::test]
async fn many_streams_stay_near_the_memory_bound() {
    let engine = Engine::builder()
        .table(TableConfig::queue("t", 1_000))
        .max_bytes(50_000)
        .max_bytes_wait(FOR_EVER)
        .build()
        .unwrap();
    let server = TestServer::of(engine, ServerOptions::default().workers(2)).await;
    let mut client = server.client().await;
    let mut streams = Vec::new();
    for stream in 0..8_u64 {
        let inserter = Inserter::open(&mut client).await;
        (0..50).for_each(|number| inserter.send(large(stream * 50 + number)));
        streams.push(inserter);
    }
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 400, -1);
    let mut most = 0;
    let mut samples = 0;
    while samples < 400 {
        let response = sampler.next().await.unwrap().expect("400 samples come");
        samples += response.entries.iter().filter(|entry| entry.end_of_sequence).count();
        most = most.max(server.engine.ledger().snapshot().resident_bytes());
    }
    // The bound covers one request per thread, and the samples in transit.
    assert!(most < 50_000 + 400 * 5_000 / 4, "{most} bytes were in memory");
    for (stream, inserter) in (0..8_u64).zip(&mut streams) {
        inserter.confirmed((0..50).map(|number| stream * 50 + number)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn streams_that_start_together_stay_within_the_memory_bound() {
    let engine = Engine::builder()
        .table(TableConfig::queue("t", 1_000))
        .max_bytes(5_000_000)
        .max_bytes_wait(FOR_EVER)
        .build()
        .unwrap();
    let server = TestServer::of(engine, ServerOptions::default().workers(1)).await;
    let mut client = server.client().await;
    let noise: Vec<f32> = large_values(7, 1_000_000);
    let mut streams = Vec::new();
    for key in 0..6_u64 {
        // Items of 3 to 4 MB each, so that two exceed the bound.
        let inserter = Inserter::open(&mut client).await;
        inserter.send(InsertStreamRequest {
            chunks: vec![chunk_of(key, &noise)],
            items: vec![item_over("t", key, &[key], 1)],
            keep_chunk_keys: Vec::new(),
        });
        streams.push(inserter);
    }
    let channel = server.channel().await;
    waiting(&channel, 4).await;
    for inserter in &mut streams[..2] {
        assert_eq!(inserter.next().await.unwrap().map(|keys| keys.len()), Some(1));
    }
    let described = waiting(&channel, 4).await;
    assert_eq!(described.tables[0].info.as_ref().unwrap().current_size, 2);
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 6, -1);
    let mut samples = 0;
    while samples < 6 {
        let response = sampler.next().await.unwrap().expect("6 samples come");
        samples += response.entries.iter().filter(|entry| entry.end_of_sequence).count();
    }
    for (key, inserter) in (0..6_u64).zip(&mut streams).skip(2) {
        inserter.confirmed([key]).await;
    }
    assert_eq!(server.engine.memory().reserved_bytes, 0);
    server.stop().await;
}

/// The number of bytes that one stream may send before the server reads them.
const WINDOW: usize = relive_server::limits::STREAM_WINDOW_BYTES as usize;

#[tokio::test]
async fn waiting_streams_with_full_windows_block_no_other_call() {
    let server = server(FOR_EVER).await;
    let mut client = server.client().await;
    let mut first = Inserter::open(&mut client).await;
    first.send(large(1));
    first.send(large(2));
    first.confirmed([1, 2]).await;
    let mut streams = Vec::new();
    for stream in 0..12 {
        let inserter = Inserter::open(&mut client).await;
        let requests = WINDOW / 4_000 + 1;
        (0..requests).for_each(|_| inserter.send(large(100 + stream)));
        streams.push(inserter);
    }
    let seen = async {
        while server.engine.memory().waiters.len() < 12 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DUE, seen).await.expect("the streams wait");
    // The windows fill up while these calls are made.
    for _ in 0..200 {
        let called = client.server_info(ServerInfoRequest {});
        tokio::time::timeout(DUE, called).await.expect("calls go on").unwrap();
    }
    server.stop().await;
}
