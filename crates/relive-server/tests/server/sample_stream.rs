//! Tests SampleStream as clients observe it.

use std::sync::Arc;

use crate::common::{Inserter, Sampler, TestServer, chunk_of, chunk_under, item_over, step};
use relive_table::{SelectorKind, TableConfig};
use relive_tensor::{Codec, Nest};
use relive_wire::reverb::InsertStreamRequest;
use relive_wire::sample::Assembler;
use relive_wire::{Message, codec, structure};
use tonic::Code;

#[tokio::test]
async fn small_samples_arrive_in_growing_batches() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 500, -1);
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 500 {
        sizes.push(sampler.next().await.unwrap().unwrap().entries.len());
    }
    assert_eq!(sizes, [128, 256, 116]);
    assert_eq!(server.engine.table("t").unwrap().status().undelivered_samples, 0);
    server.stop().await;
}

#[tokio::test]
async fn samples_taken_for_a_withdrawn_request_are_sent() {
    let server = TestServer::start([TableConfig::new("t").max_times_sampled(1)]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.confirmed([1]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 3, -1);
    assert_eq!(sampler.next().await.unwrap().unwrap().entries.len(), 1);
    sampler.ask("t", 5, -1);
    sampler.take_back();
    assert_eq!(sampler.next().await.unwrap(), None, "the stream ends without waiting for more");
    inserter.send(step("t", 2));
    inserter.confirmed([2]).await;
    assert_eq!(server.engine.table("t").unwrap().info().current_size, 1);
    server.stop().await;
}

#[tokio::test]
async fn column_structures_are_sent_when_new() {
    let server = TestServer::start(["t", "u"].map(TableConfig::new)).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    for table in ["t", "u"] {
        inserter.send(step(table, 1));
        inserter.confirmed([1]).await;
    }
    let (t, names) = (server.engine.table("t").unwrap(), Nest::dict([("x", ())]));
    let mut sampler = Sampler::open(&mut client).await;
    let mut describe = async |table: &str| {
        sampler.ask(table, 1, -1);
        let response = sampler.next().await.unwrap().unwrap();
        response.relive_structure.map(|describe| structure::items_of(&describe).unwrap())
    };
    assert_eq!(describe("t").await, None, "nobody has said it, as was the case before");
    let agreed = t.agree_on_columns(names).unwrap();
    assert_eq!(describe("t").await, Some(Some(Arc::clone(&agreed))));
    assert_eq!(describe("t").await, None);
    assert_eq!(describe("u").await, Some(None), "another table, of which nothing is known");
    assert_eq!(describe("t").await, Some(Some(agreed)));
    server.stop().await;
}

#[tokio::test]
async fn large_samples_are_split_over_messages_and_reassembled() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    let keys: Vec<u64> = (1..=10).collect();
    let mut noise = 1_u32;
    let mut values = |_| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(noise >> 9 | 0x3f80_0000)
    };
    let chunks: Vec<_> =
        keys.iter().map(|key| chunk_of(*key, &(0..150_000).map(&mut values).collect::<Vec<_>>())).collect();
    inserter.send(InsertStreamRequest {
        chunks: chunks.clone(),
        items: vec![item_over("t", 5, &keys, 150_000)],
        keep_chunk_keys: vec![],
    });
    inserter.confirmed([5]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 2, -1);
    let (mut assembler, mut samples, mut per_entry) = (Assembler::default(), Vec::new(), Vec::new());
    while samples.len() < 2 {
        let response = sampler.next().await.unwrap().unwrap();
        per_entry.extend(response.entries.iter().map(|entry| entry.data.len()));
        assembler.push(&response.encode_to_vec().into(), &mut samples).unwrap();
    }
    assert_eq!(per_entry[..2], [4, 4], "a message is closed once its chunks exceed 2 MiB");
    for sample in samples {
        assert!(sample.chunks().eq(chunks.iter().map(AsRef::as_ref)), "the very bytes that came in");
        assert_eq!((sample.info().key, sample.table(), sample.info().priority), (5, "t", 1.0));
        assert!(sample.info().inserted_at.unwrap().0 > 1_600_000_000);
        assert_eq!(sample.trajectory().unwrap().decode().unwrap()[0].shape().dims(), [1_500_000]);
    }
    server.stop().await;
}

#[tokio::test]
async fn one_stream_serves_many_requests_to_different_tables() {
    let server = TestServer::start([TableConfig::new("a"), TableConfig::new("b")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("a", 1));
    inserter.send(step("b", 2));
    inserter.confirmed([1, 2]).await;
    let mut sampler = Sampler::open(&mut client).await;
    for (table, key) in [("a", 1), ("b", 2), ("a", 1)] {
        sampler.ask(table, 1, -1);
        let entry = sampler.next().await.unwrap().unwrap().entries.remove(0);
        assert_eq!(entry.info.unwrap().item.unwrap().key, key);
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_get_their_codes() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    for (table, count, timeout, code, text) in [
        ("no", 1, -1, Code::NotFound, "Priority table no was not found"),
        ("t", 0, -1, Code::InvalidArgument, "got 0"),
        ("t", -5, -1, Code::InvalidArgument, "got -5"),
        ("t", 1 << 40, -1, Code::InvalidArgument, "num_samples"),
        (
            "t",
            1,
            20,
            Code::DeadlineExceeded,
            "Rate Limiter: Timeout exceeded before the right to insert was acquired.",
        ),
    ] {
        let mut sampler = Sampler::open(&mut client).await;
        sampler.ask(table, count, timeout);
        let status = sampler.status().await;
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_cancelled_request_removes_nothing_from_a_queue() {
    let server = TestServer::start([TableConfig::queue("q", 5)]).await;
    let mut client = server.client().await;
    let waiting = || server.engine.table("q").unwrap().status().waiters.len();
    let gone = Sampler::open(&mut client).await;
    gone.ask("q", 1, -1);
    while waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(gone);
    while waiting() > 0 {
        tokio::task::yield_now().await;
    }
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("q", 3));
    inserter.confirmed([3]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("q", 1, 1_000);
    assert_eq!(sampler.next().await.unwrap().unwrap().entries.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn samples_report_probabilities_and_counts() {
    let table = TableConfig::new("t").sampler(SelectorKind::MaxHeap).max_times_sampled(2);
    let server = TestServer::start([table]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    inserter.send(step("t", 1));
    inserter.send(step("t", 2));
    inserter.confirmed([1, 2]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 3, -1);
    let entries = sampler.next().await.unwrap().unwrap().entries;
    let actual: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            assert!(entry.end_of_sequence);
            let info = entry.info.unwrap();
            let item = info.item.unwrap();
            (item.key, item.times_sampled, info.probability, info.table_size, info.rate_limited)
        })
        .collect();
    assert_eq!(actual, [(1, 1, 1.0, 2, false), (1, 2, 1.0, 2, false), (2, 1, 1.0, 1, false)]);
    server.stop().await;
}

#[tokio::test]
async fn an_item_with_many_slices_does_not_inflate_its_batch() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    let slices = vec![1; 60_000];
    inserter.send(InsertStreamRequest {
        chunks: vec![chunk_of(1, &[1.0])],
        items: vec![item_over("t", 5, &slices, 1)],
        keep_chunk_keys: vec![],
    });
    inserter.confirmed([5]).await;
    let mut sampler = Sampler::open(&mut client).await;
    sampler.ask("t", 12, -1);
    let mut seen = 0;
    while seen < 12 {
        let response = sampler.next().await.unwrap().unwrap();
        assert!(
            response.entries.len() <= 3,
            "{} samples of 1 MB each in one message",
            response.entries.len()
        );
        seen += response.entries.len();
    }
    server.stop().await;
}

#[tokio::test]
async fn readers_get_the_stored_codec_if_supported_and_snappy_otherwise() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut client = server.client().await;
    let mut inserter = Inserter::open(&mut client).await;
    let chunk = chunk_under(Codec::Zstd, 1, &[2.5; 1000]);
    let items = vec![item_over("t", 1, &[1], 1000)];
    inserter.send(InsertStreamRequest { chunks: vec![chunk.clone()], items, keep_chunk_keys: vec![] });
    inserter.confirmed([1]).await;
    let mut sampler = Sampler::open(&mut client).await;
    // The supported codecs may differ between requests on one stream.
    for (codecs, is_same) in [(codec::known(), true), (vec![], false), (vec![2, 77], false), (vec![3], true)]
    {
        sampler.ask_as(&codecs, "t", 1, -1);
        let sample = sampler.next().await.unwrap().unwrap();
        let sent = &sample.entries[0].data[0];
        assert_eq!(sent == &chunk, is_same, "{codecs:?}");
        let read = relive_wire::chunk::decode(sent).unwrap();
        assert_eq!(read.codecs().contains(Codec::Zstd), is_same);
        assert_eq!(read.decode_column(0).unwrap().to_vec::<f32>().unwrap(), [2.5; 1000]);
    }
    server.stop().await;
}
