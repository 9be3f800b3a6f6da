//! Tests connections on the bulk path with valid frames and with invalid data.

use std::time::Duration;

use crate::common::raw::Raw;
use crate::common::{DUE, Inserter, Sampler, TestServer, chunk_under, item_over, step_in_run};
use relive_engine::{Engine, TableHandle};
use relive_server::ServerOptions;
use relive_table::{SelectorKind, TableConfig};
use relive_tensor::Codec;
use relive_wire::Message;
use relive_wire::bulk::{BatchView, FrameHeader, FrameKind, InfoLayout};
use relive_wire::item_run::RunSlice;
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::v1::{AskBatches, BatchHead, BatchesWithdrawn, InsertItems, ItemRun, OpenSampler};
use tokio::io::AsyncWriteExt;
use tonic::Code;

fn fifo() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)
}

fn open(batch_size: u32) -> OpenSampler {
    OpenSampler { table: "t".to_owned(), batch_size, window_bytes: 1 << 20, ..OpenSampler::default() }
}

async fn fill(server: &TestServer, keys: std::ops::RangeInclusive<u64>) {
    let mut raw = Raw::writer(server).await;
    for key in keys.clone() {
        raw.send(FrameKind::Insert, &[], &step_in_run("t", key).encode_to_vec()).await;
    }
    let mut confirmed = Vec::new();
    while confirmed.len() < keys.clone().count() {
        confirmed.extend(raw.confirmed().await);
    }
    assert_eq!(confirmed, keys.collect::<Vec<_>>());
    raw.send(FrameKind::End, &[], &[]).await;
    raw.end().await;
}

#[tokio::test]
async fn items_are_inserted_and_read_as_batches() {
    let server = TestServer::start([fifo()]).await;
    fill(&server, 1..=6).await;
    let mut raw = Raw::sampler(&server, open(3)).await;
    raw.ask(2).await;
    for first in [1, 4] {
        let (kind, head, body) = raw.next().await;
        let head = BatchHead::decode(head.as_slice()).unwrap();
        let view = BatchView::new(&head).unwrap();
        assert_eq!((kind, view.samples, view.data_bytes), (FrameKind::Batch, 3, body.len()));
        let layout = InfoLayout::of(3);
        let keys: Vec<u64> = layout.read(&body).map(|info| info.key).collect();
        assert_eq!(keys, [first, first + 1, first + 2]);
    }
    drop(raw);
    let engine = server.engine.clone();
    server.stop().await;
    assert_eq!(engine.table("t").unwrap().status().undelivered_samples, 0);
}

/// Returns once `samples` samples have been taken from the table.
async fn taken(table: &TableHandle, samples: i64) {
    let taken = async {
        while table.info().samples < samples {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DUE, taken).await.expect("the samples are taken");
}

#[tokio::test]
async fn samples_that_are_taken_but_never_sent_are_counted() {
    let engine = Engine::builder().table(TableConfig::new("t")).seed(3).build().unwrap();
    let table = engine.table("t").unwrap();
    let options = ServerOptions::default().max_bytes_in_flight(1).drain_timeout(Duration::from_millis(1));
    let server = TestServer::of(engine, options).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(InsertStreamRequest {
        chunks: vec![chunk_under(Codec::Raw, 1, &vec![1.5; 1 << 20])],
        items: vec![item_over("t", 1, &[1], 1 << 20)],
        keep_chunk_keys: Vec::new(),
    });
    inserter.confirmed([1]).await;
    // A batch of 64 MiB that is not read occupies all room, so the other readers' samples wait for room.
    let mut slow = Raw::sampler(&server, OpenSampler { window_bytes: 1 << 30, ..open(16) }).await;
    slow.ask(1).await;
    taken(&table, 16).await;
    let mut waiting = Raw::sampler(&server, open(1)).await;
    waiting.ask(1).await;
    taken(&table, 17).await;
    let sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 1, -1);
    taken(&table, 18).await;
    server.stop().await;
    assert_eq!(table.status().undelivered_samples, 18);
}

#[tokio::test]
async fn only_requested_samples_are_removed_and_undelivered_ones_stay() {
    let server = TestServer::start([fifo()]).await;
    fill(&server, 1..=4).await;
    let size = || server.engine.table("t").unwrap().info().current_size;
    let mut asked = Raw::sampler(&server, open(3)).await;
    asked.ask(1).await;
    asked.next().await;
    assert_eq!(size(), 1);
    // The fourth sample is sent alone, so that it does not wait for the others. Then the table is empty, and the
    // request ends with the connection.
    asked.ask(1).await;
    assert_eq!(asked.next().await.0, FrameKind::Samples);
    asked.0.shutdown().await.unwrap();
    asked.end().await;
    fill(&server, 5..=5).await;
    assert_eq!(size(), 1, "who asked is gone");
    server.stop().await;
}

#[tokio::test]
async fn withdrawn_requests_take_nothing_and_name_what_is_missing() {
    let server = TestServer::start([fifo()]).await;
    let size = || server.engine.table("t").unwrap().info().current_size;
    let mut raw = Raw::sampler(&server, open(2)).await;
    let withdraw = AskBatches { batches: 3, withdraw: true, ..AskBatches::default() }.encode_to_vec();
    for first in [1, 3] {
        raw.ask(2).await;
        raw.send(FrameKind::Ask, &withdraw, &[]).await;
        let (kind, head, _) = raw.next().await;
        assert_eq!(kind, FrameKind::Withdrawn);
        let reason = BatchesWithdrawn::decode(head.as_slice()).unwrap().reason;
        assert!(reason.contains("needs 1 more item"), "{reason}");
        fill(&server, first..=first + 1).await;
        assert_eq!(size(), 2, "nobody wants them");
        raw.ask(1).await;
        assert_eq!((raw.next().await.0, size()), (FrameKind::Batch, 0));
    }
    // Half of a batch that was sent before the withdrawal counts toward the next batch.
    fill(&server, 5..=5).await;
    raw.ask(1).await;
    assert_eq!(raw.next().await.0, FrameKind::Samples);
    raw.send(FrameKind::Ask, &withdraw, &[]).await;
    assert_eq!(raw.next().await.0, FrameKind::Withdrawn);
    fill(&server, 6..=7).await;
    raw.ask(1).await;
    assert_eq!((raw.next().await.0, size()), (FrameKind::Samples, 1));
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_by_name() {
    let server = TestServer::start([fifo()]).await;
    let cases: [(Raw, Code, &str); 5] = [
        (Raw::sampler(&server, open(0)).await, Code::InvalidArgument, "batch_size"),
        (Raw::sampler(&server, open(u32::MAX)).await, Code::InvalidArgument, "batch_size"),
        (
            Raw::sampler(&server, OpenSampler { table: "no".to_owned(), ..open(1) }).await,
            Code::NotFound,
            "no",
        ),
        (
            {
                let mut raw = Raw::sampler(&server, open(1)).await;
                raw.send(FrameKind::Insert, &[], &[]).await;
                raw
            },
            Code::InvalidArgument,
            "Insert",
        ),
        (
            {
                let mut raw = Raw::sampler(&server, open(1)).await;
                let ask = AskBatches { free_slots: vec![7], ..AskBatches::default() };
                raw.send(FrameKind::Ask, &ask.encode_to_vec(), &[]).await;
                raw
            },
            Code::InvalidArgument,
            "shared memory 7",
        ),
    ];
    for (mut raw, code, text) in cases {
        let (got, message) = raw.error().await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(text), "{message}");
        raw.end().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let server = TestServer::start([fifo()]).await;
    let mut state = 1_u64;
    for round in 0..200_usize {
        let mut raw = match round % 3 {
            0 => Raw::open(&server).await,
            1 => Raw::sampler(&server, open(2)).await,
            _ => Raw::writer(&server).await,
        };
        let mut bytes: Vec<u8> = (0..round % 90 + 1)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_be_bytes()[0]
            })
            .collect();
        if round % 2 == 0 {
            // A plausible header, so that the bytes after it are parsed.
            let kind = bytes[0] % 11;
            let header = [kind, 0, 0, 0, bytes[0] % 40, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
            bytes.splice(..0, header);
        }
        // The server may already have closed the connection.
        drop(raw.0.write_all(&bytes).await);
        drop(raw.0.shutdown().await);
        raw.end().await;
    }
    fill(&server, 1..=1).await;
    server.stop().await;
}

#[tokio::test]
async fn a_bad_request_is_reported_after_earlier_items_are_confirmed() {
    let server = TestServer::start([fifo()]).await;
    let mut raw = Raw::writer(&server).await;
    raw.send(FrameKind::Insert, &[], &step_in_run("t", 1).encode_to_vec()).await;
    assert_eq!(raw.confirmed().await, [1]);
    raw.send(FrameKind::Insert, &[], &step_in_run("nowhere", 2).encode_to_vec()).await;
    let (code, message) = raw.error().await;
    assert_eq!(code, Code::NotFound, "{message}");
    raw.end().await;
    let mut raw = Raw::writer(&server).await;
    raw.send(FrameKind::Insert, &[], b"\xff\xff\xff").await;
    assert_eq!(raw.error().await.0, Code::InvalidArgument);
    raw.end().await;
    server.stop().await;
}

type Corrupt = fn(&mut ItemRun);

#[tokio::test]
async fn items_before_a_bad_one_are_inserted() {
    let server = TestServer::start([fifo()]).await;
    let slice = |chunk_key, length| [RunSlice { chunk_key, index: 0, offset: 0, length }].into_iter();
    let cases: [(u64, Corrupt, Code, &str); 3] = [
        (
            1,
            |run| run.chunk_keys[1] = 99,
            Code::Internal,
            "refers to chunk 99, which this stream does not hold",
        ),
        (2, |run| run.lengths[1] = 5, Code::InvalidArgument, "item 12"),
        (0, |run| run.priorities.truncate(1), Code::InvalidArgument, "1 priorities, but expected 3"),
    ];
    for (confirmed, corrupt, code, text) in cases {
        let mut raw = Raw::writer(&server).await;
        let mut request = step_in_run("t", confirmed);
        let run = &mut request.runs[0];
        run.begin_item(10 + confirmed, 1.0);
        run.chunk_keys.push(confirmed);
        run.push_column(slice(confirmed, 1));
        run.chunks[1] = 1;
        run.begin_item(20 + confirmed, 1.0);
        run.push_column(slice(confirmed, 1));
        run.chunks[2] = 0;
        corrupt(run);
        raw.send(FrameKind::Insert, &[], &request.encode_to_vec()).await;
        if confirmed > 0 {
            assert_eq!(raw.confirmed().await, [confirmed]);
        }
        let (got, message) = raw.error().await;
        assert!(got == code && message.contains(text), "{got}: {message}");
        raw.end().await;
    }
    assert_eq!(server.engine.table("t").unwrap().info().current_size, 2, "nothing behind a bad item is in");
    server.stop().await;
}

#[tokio::test]
async fn chunks_are_kept_while_their_keys_are_listed() {
    let server = TestServer::start([fifo()]).await;
    let mut raw = Raw::writer(&server).await;
    let mut request = step_in_run("t", 1);
    let chunks_alone = InsertItems { runs: Vec::new(), ..request.clone() };
    raw.send(FrameKind::Insert, &[], &chunks_alone.encode_to_vec()).await;
    request.chunks.clear();
    request.keep_chunk_keys = vec![1];
    raw.send(FrameKind::Insert, &[], &request.encode_to_vec()).await;
    request.keep_chunk_keys.clear();
    request.runs[0].keys[0] = 2;
    raw.send(FrameKind::Insert, &[], &request.encode_to_vec()).await;
    let mut confirmed = Vec::new();
    while confirmed.len() < 2 {
        confirmed.extend(raw.confirmed().await);
    }
    assert_eq!(confirmed, [1, 2]);
    raw.send(FrameKind::Insert, &[], &request.encode_to_vec()).await;
    let (code, message) = raw.error().await;
    assert!(message.contains("which this stream does not hold"), "{code}: {message}");
    let mut raw = Raw::writer(&server).await;
    raw.send(FrameKind::Insert, &[], &[]).await;
    let (code, message) = raw.error().await;
    assert!(message.contains("must have chunks or items"), "{code}: {message}");
    server.stop().await;
}

#[tokio::test]
async fn frame_heads_are_limited_until_a_writer_is_admitted() {
    let server = TestServer::start([fifo()]).await;
    let long = OpenSampler { token: "x".repeat(20 << 10), ..open(1) };
    let mut raw = Raw::sampler(&server, long).await;
    let (code, message) = raw.error().await;
    assert!(code == Code::InvalidArgument && message.contains("the limit is 16384"), "{code}: {message}");
    raw.end().await;
    fill(&server, 1..=1).await;
    server.stop().await;
}

#[tokio::test]
async fn announced_but_unsent_bytes_take_no_memory() {
    let server = TestServer::start([fifo()]).await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        let mut raw = Raw::writer(&server).await;
        let header = FrameHeader::new(FrameKind::Insert, 0, 1 << 30).unwrap().encode();
        raw.write(&header).await;
        idle.push(raw);
    }
    fill(&server, 1..=1).await;
    drop(idle);
    server.stop().await;
}

#[tokio::test]
async fn a_stopping_server_notifies_its_connections() {
    let mut server = TestServer::start([fifo()]).await;
    let (mut reader, mut writer) = (Raw::sampler(&server, open(1)).await, Raw::writer(&server).await);
    reader.ask(1).await;
    writer.send(FrameKind::Insert, &[], &step_in_run("t", 1).encode_to_vec()).await;
    assert_eq!(writer.confirmed().await, [1]);
    reader.next().await;
    server.begin_stop();
    assert_eq!(reader.error().await.0, Code::Unavailable);
    assert_eq!(writer.error().await.0, Code::Unavailable);
    server.stop().await;
}
