//! Tests that waiters are served in order, that a request that is abandoned takes no samples, and that a confirmed item
//! is stored.
#![expect(clippy::unwrap_used, reason = "a refusal where none is due ends the test")]

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{self, Writer, min_size, queue, request};
use relive_engine::{ErrorKind, Mutation, Operation, SampleFuture, SampleRequest};
use relive_table::{RateLimiterConfig, Sampled, SelectorKind, Shortfall, TableConfig};

fn poll(future: &mut SampleFuture) -> Poll<Result<Vec<Sampled>, relive_engine::EngineError>> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn keys(batch: &[Sampled]) -> Vec<u64> {
    batch.iter().map(|sampled| sampled.item.key).collect()
}

fn ready(future: &mut SampleFuture) -> Vec<u64> {
    match poll(future) {
        Poll::Ready(batch) => keys(&batch.unwrap()),
        Poll::Pending => panic!("the samples are due"),
    }
}

#[test]
fn a_request_is_served_at_once_when_the_limiter_allows() {
    let (_engine, table) = min_size(1);
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2, 3]), 0);
    assert_eq!(writer.confirmed, [1, 2, 3]);
    assert_eq!(ready(&mut table.sample(request(2))), [1, 1], "fifo gives the oldest as long as it stays");
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let (_engine, table) = queue(10);
    let mut first = table.sample(request(2));
    let mut second = table.sample(request(1));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    let mut writer = Writer::new(&table);
    writer.insert([1]);
    assert_eq!(ready(&mut first), [1], "a batch ends with what there is");
    assert!(poll(&mut second).is_pending());
    writer.insert([2, 3]);
    assert_eq!(ready(&mut second), [2]);
    assert_eq!(ready(&mut table.sample(request(5))), [3]);
}

#[test]
fn a_dropped_request_removes_nothing() {
    let (_engine, table) = queue(10);
    let mut gone = table.sample(request(1));
    assert!(poll(&mut gone).is_pending());
    drop(gone);
    let mut stays = table.sample(request(1));
    assert!(poll(&mut stays).is_pending());
    Writer::new(&table).insert([7]);
    assert_eq!(ready(&mut stays), [7]);
    assert_eq!((table.info().samples, table.status().undelivered_samples), (1, 0));
}

#[test]
fn samples_for_a_cancelled_request_are_counted() {
    let (_engine, table) = queue(10);
    let mut late = table.sample(request(1));
    assert!(poll(&mut late).is_pending());
    Writer::new(&table).insert([7]);
    drop(late);
    assert_eq!(table.status().undelivered_samples, 1);
    let mut sent = table.undelivered(5);
    sent.delivered(2);
    sent.add(1);
    drop(sent);
    table.undelivered(9).delivered_all();
    assert_eq!(table.status().undelivered_samples, 1 + 4);
    table.reset().unwrap();
    assert_eq!(table.status().undelivered_samples, 0, "a reset sets all counters to zero");
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_reports_the_missing_items() {
    let (_engine, table) = min_size(5);
    Writer::new(&table).insert([1, 2]);
    let timeout = Some(Duration::from_millis(250));
    let error = table.sample(SampleRequest { timeout, ..request(1) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = error.to_string();
    assert!(text.contains("`replay`") && text.contains("3 more items"), "{text}");
    Writer::new(&table).insert([3, 4, 5]);
    assert_eq!(table.info().samples, 0, "the request is gone");
}

#[tokio::test]
async fn a_timeout_of_zero_fails_at_once() {
    let (_engine, table) = min_size(1);
    let now = SampleRequest { timeout: Some(Duration::ZERO), ..request(1) };
    assert_eq!(table.sample(now.clone()).await.unwrap_err().kind(), ErrorKind::Timeout);
    Writer::new(&table).insert([1]);
    assert_eq!(keys(&table.sample(now).await.unwrap()), [1]);
}

#[test]
fn inserts_wait_for_samples_and_are_confirmed_in_order() {
    let (_engine, table) = queue(2);
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2, 3, 4]), 2);
    assert_eq!(writer.confirmed, [1, 2]);
    assert!(writer.settled().is_empty());
    assert_eq!(ready(&mut table.sample(request(1))), [1]);
    assert_eq!(writer.settled_keys(), [3]);
    assert_eq!(ready(&mut table.sample(request(3))), [2, 3, 4], "one insert goes in as one sample goes out");
    assert_eq!(writer.settled_keys(), [4]);
}

#[test]
fn an_insert_behind_a_blocked_one_waits_even_if_it_only_updates() {
    let (_engine, table) = queue(1);
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2, 1]), 2);
    assert_eq!(table.info().current_size, 1);
}

#[test]
fn the_worked_example_of_the_limiter_holds() {
    let limiter =
        RateLimiterConfig { samples_per_insert: 2.0, min_size_to_sample: 2, min_diff: 0.0, max_diff: 8.0 };
    let (_engine, table) = common::engine(TableConfig::new("t").rate_limiter(limiter));
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert(1..=5), 1, "the fifth insert blocks");
    let mut taken = 0;
    let mut future = table.sample(request(100));
    while let Poll::Ready(batch) = poll(&mut future) {
        taken += batch.unwrap().len();
        future = table.sample(request(100));
    }
    assert_eq!(taken, 10);
    assert_eq!(writer.settled_keys(), [5]);
}

#[test]
fn a_reset_releases_a_blocked_insert() {
    let (_engine, table) = queue(1);
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2]), 1);
    table.reset().unwrap();
    assert_eq!(writer.settled_keys(), [2]);
    assert_eq!((table.info().current_size, table.info().inserts), (1, 1));
}

#[test]
fn a_delete_can_unblock_an_insert() {
    let limiter =
        RateLimiterConfig { samples_per_insert: 1.0, min_size_to_sample: 2, min_diff: 0.0, max_diff: 2.0 };
    let (_engine, table) = common::engine(TableConfig::new("t").rate_limiter(limiter));
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2, 3]), 1);
    table.mutate([Mutation::Delete { key: 1 }]).unwrap();
    assert_eq!(writer.settled_keys(), [3]);
}

#[test]
fn closing_fails_waiting_inserts_without_confirming_them() {
    let (engine, table) = queue(1);
    let mut writer = Writer::new(&table);
    assert_eq!(writer.insert([1, 2]), 1);
    assert_eq!(ready(&mut table.sample(request(1))), [1]);
    assert_eq!(writer.settled_keys(), [2]);
    assert_eq!(writer.insert([3]), 1);
    let (_other_engine, empty) = queue(1);
    let mut sampler = empty.sample(request(1));
    assert!(poll(&mut sampler).is_pending());
    engine.close();
    empty.close();
    assert_eq!(writer.settled().pop().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(matches!(poll(&mut sampler), Poll::Ready(Err(error)) if error.kind() == ErrorKind::Cancelled));
    let mut late = table.sample(request(1));
    assert!(matches!(poll(&mut late), Poll::Ready(Err(error)) if error.kind() == ErrorKind::Cancelled));
    assert_eq!(table.reset().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(table.info().current_size, 1, "what was confirmed is still there");
}

#[test]
fn a_bad_priority_is_refused_and_the_table_lives_on() {
    let config = TableConfig::new("t").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let (_engine, table) = common::engine(config);
    let mut writer = Writer::new(&table);
    writer.insert([1]);
    for priority in [-1.0, f64::NAN, f64::INFINITY] {
        let bad = relive_table::NewItem { priority, ..common::item(2) };
        let who = "test".into();
        let error = table.insert([bad], &who, &writer.confirmations, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = table.mutate([Mutation::Update { key: 1, priority }]).unwrap_err();
        assert!(error.to_string().contains("item 1"), "{error}");
    }
    assert_eq!(ready(&mut table.sample(request(1))), [1]);
    assert_eq!(writer.insert([2]), 0);
}

#[test]
fn waiters_report_what_they_wait_for() {
    let (_engine, table) = min_size(3);
    Writer::new(&table).insert([1]);
    let mut one = table.sample(request(4));
    let mut two = table.sample(request(1));
    assert!(poll(&mut one).is_pending() && poll(&mut two).is_pending());
    let status = table.status();
    let [first, second] = status.waiters.as_slice() else { panic!("two wait: {:?}", status.waiters) };
    assert_eq!((first.operation, first.wanted, &*first.who), (Operation::Sample, 4, "test sampler"));
    assert_eq!(first.shortfall, Some(Shortfall::MinSize { size: 1, required: 3 }));
    assert_eq!(second.shortfall, None, "it stands behind the first");
}

#[test]
fn samples_report_whether_they_were_delayed() {
    let (_engine, table) = queue(10);
    let mut waited = table.sample(request(1));
    assert!(poll(&mut waited).is_pending());
    let mut writer = Writer::new(&table);
    writer.insert([1, 2]);
    let Poll::Ready(Ok(batch)) = poll(&mut waited) else { panic!("due") };
    assert!(batch[0].rate_limited);
    let Poll::Ready(Ok(batch)) = poll(&mut table.sample(request(1))) else { panic!("due") };
    assert!(!batch[0].rate_limited);
}

#[test]
fn a_batch_ends_at_its_byte_limit() {
    let (_engine, table) = min_size(1);
    Writer::new(&table).insert([1]);
    let bytes = common::item(1).trajectory.encoded_size_bytes();
    let mut future = table.sample(SampleRequest { max_bytes: 3 * bytes - 1, ..request(100) });
    assert_eq!(ready(&mut future).len(), 3);
}

#[test]
fn a_request_for_no_samples_is_refused() {
    let (_engine, table) = min_size(1);
    assert!(
        matches!(poll(&mut table.sample(request(0))), Poll::Ready(Err(e)) if e.kind() == ErrorKind::InvalidArgument)
    );
}
