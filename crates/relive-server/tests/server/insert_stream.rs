//! Tests InsertStream as clients observe it.

use crate::common::{Inserter, Sampler, TestServer, chunk_of, item_over, step};
use relive_table::{SelectorKind, TableConfig};
use relive_wire::reverb::InsertStreamRequest;
use tonic::Code;

#[tokio::test]
async fn items_are_confirmed_once_they_are_in_the_table() {
    let server = TestServer::start([TableConfig::new("t"), TableConfig::new("u")]).await;
    let mut inserter = Inserter::open(&mut server.client().await).await;
    let items = vec![item_over("t", 1, &[9], 2), item_over("u", 2, &[9], 1), item_over("t", 1, &[9], 2)];
    let request =
        InsertStreamRequest { chunks: vec![chunk_of(9, &[1.0, 2.0])], items, keep_chunk_keys: vec![9] };
    inserter.send(request);
    let mut keys = Vec::new();
    while keys.len() < 3 {
        keys.extend(inserter.next().await.unwrap().unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, [1, 1, 2], "an update is confirmed like an insert");
    assert_eq!(server.engine.table("t").unwrap().info().inserts, 1);
    inserter.send(InsertStreamRequest { items: vec![item_over("t", 3, &[9], 1)], ..Default::default() });
    inserter.confirmed([3]).await;
    let (held, live) = (server.engine.ledger().snapshot().chunks, 1);
    assert_eq!(held, live, "one chunk, shared by three items");
    server.stop().await;
}

#[tokio::test]
async fn requests_that_break_the_protocol_end_the_stream_with_the_right_code() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let with = |change: fn(&mut InsertStreamRequest)| {
        let mut request = step("t", 1);
        change(&mut request);
        request
    };
    let cases: [(InsertStreamRequest, Code, &str); 7] = [
        (
            InsertStreamRequest { keep_chunk_keys: vec![1], ..Default::default() },
            Code::InvalidArgument,
            "chunks or items",
        ),
        (with(|r| r.items[0].table = "no".into()), Code::NotFound, "Priority table no was not found"),
        (with(|r| r.chunks.clear()), Code::Internal, "chunk 1"),
        (with(|r| r.keep_chunk_keys = vec![1, 2]), Code::FailedPrecondition, "keep_chunk_keys lists 2"),
        (with(|r| r.keep_chunk_keys = vec![1, 1]), Code::FailedPrecondition, "keep_chunk_keys lists 2"),
        (with(|r| r.items[0].flat_trajectory = None), Code::InvalidArgument, "no trajectory"),
        (with(|r| r.chunks[0] = bytes::Bytes::from_static(b"\xff\xff")), Code::InvalidArgument, "chunk"),
    ];
    for (request, code, text) in cases {
        let mut inserter = Inserter::open(&mut server.client().await).await;
        inserter.send(request);
        let status = inserter.status().await;
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
    let mut other = Inserter::open(&mut server.client().await).await;
    other.send(step("t", 77));
    other.confirmed([77]).await;
    server.stop().await;
}

#[tokio::test]
async fn items_before_a_failed_precondition_are_inserted() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut inserter = Inserter::open(&mut server.client().await).await;
    inserter.send(InsertStreamRequest { keep_chunk_keys: vec![5], ..step("t", 1) });
    inserter.confirmed([1]).await;
    assert_eq!(inserter.status().await.code(), Code::FailedPrecondition);
    server.stop().await;
}

#[tokio::test]
async fn keep_keys_of_a_request_without_items_are_ignored() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut inserter = Inserter::open(&mut server.client().await).await;
    inserter.send(InsertStreamRequest {
        chunks: vec![chunk_of(1, &[1.0])],
        keep_chunk_keys: vec![8],
        items: vec![],
    });
    inserter.send(InsertStreamRequest { items: vec![item_over("t", 4, &[1], 1)], ..Default::default() });
    inserter.confirmed([4]).await;
    inserter.send(InsertStreamRequest { items: vec![item_over("t", 5, &[1], 1)], ..Default::default() });
    assert_eq!(inserter.status().await.code(), Code::Internal, "the chunk was not kept");
    server.stop().await;
}

#[tokio::test]
async fn items_after_a_bad_one_are_not_inserted() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut inserter = Inserter::open(&mut server.client().await).await;
    let items =
        [(1, 1), (2, 99), (3, 1), (4, 98), (5, 1)].map(|(key, chunk)| item_over("t", key, &[chunk], 1));
    let request = InsertStreamRequest { items: items.into(), ..step("t", 1) };
    inserter.send(request);
    inserter.confirmed([1]).await;
    let status = inserter.status().await;
    assert!(status.message().contains("chunk 99"), "the first bad one is told: {status}");
    assert_eq!(server.engine.table("t").unwrap().info().current_size, 1);
    server.stop().await;
}

#[tokio::test]
async fn bad_priorities_end_their_stream_and_leave_the_table_alive() {
    let prioritized = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 0.8 });
    let server = TestServer::start([prioritized]).await;
    let mut client = server.client().await;
    for priority in [-1.0, f64::NAN, f64::INFINITY] {
        let mut inserter = Inserter::open(&mut client).await;
        let mut request = step("t", 1);
        request.items[0].priority = priority;
        inserter.send(request);
        assert_eq!(inserter.status().await.code(), Code::InvalidArgument, "priority {priority}");
    }
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 2));
    inserter.confirmed([2]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 1, -1);
    assert_eq!(sampler.next().await.unwrap().unwrap().entries.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_half_closed_stream_ends_without_waiting_for_blocked_inserts() {
    let server = TestServer::start([TableConfig::queue("q", 20)]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    (1..=21).for_each(|key| inserter.send(step("q", key)));
    inserter.confirmed(1..=20).await;
    inserter.half_close();
    assert_eq!(inserter.status().await.code(), Code::Ok);
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("q", 21, -1);
    let mut keys = Vec::new();
    while keys.len() < 21 {
        let entries = sampler.next().await.unwrap().unwrap().entries;
        keys.extend(entries.into_iter().map(|entry| entry.info.unwrap().item.unwrap().key));
    }
    assert_eq!(keys.last(), Some(&21), "inserted after all");
    server.stop().await;
}

#[tokio::test]
async fn a_saturated_table_pauses_reading_from_its_streams() {
    let server = TestServer::start([TableConfig::queue("q", 10)]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    (1..=40).for_each(|key| inserter.send(step("q", key)));
    inserter.confirmed(1..=10).await;
    let waiting = || server.engine.table("q").unwrap().status().waiters.len();
    while waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting(), 1, "a tenth of the table's size may wait");
    let sampler = Sampler::open(&mut client).await;
    sampler.ask("q", 40, -1);
    inserter.confirmed(11..=40).await;
    server.stop().await;
}
