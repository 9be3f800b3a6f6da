//! The requests, withdrawals and outages of a reader of batches.

use tokio::time::advance;

use super::*;

#[test]
fn consumed_bytes_are_acknowledged_after_the_last_request() {
    let shared = Shared::new("t", 3, Some(2), Duration::ZERO);
    assert_eq!(shared.ask(), Some(BatchRequest::of(2, 0)));
    assert_eq!(shared.ask(), None);
    for taken in [Some(BatchRequest::of(0, 7)), None] {
        assert!(shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 }));
        assert!(matches!(shared.take(Waker::noop()), TakeResult::Batch(_)));
        assert_eq!(shared.ask(), taken, "after the last batch, nothing more is requested");
    }
    assert!(!shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 }), "not asked for");
    assert!(matches!(shared.take(Waker::noop()), TakeResult::NoMore));
}

#[test]
fn batches_are_requested_in_halves_and_shortages_at_once() {
    let shared = Shared::new("t", 4, None, Duration::ZERO);
    let deliver = || assert!(shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 }));
    let take = || assert!(matches!(shared.take(Waker::noop()), TakeResult::Batch(_)));
    assert_eq!(shared.ask(), Some(BatchRequest::of(4, 0)));
    (0..3).for_each(|_| deliver());
    take();
    assert_eq!(shared.ask(), None, "one is not half of four");
    take();
    assert_eq!(shared.ask(), Some(BatchRequest::of(2, 14)));
    take();
    (0..3).for_each(|_| deliver());
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 7)), "no other batch is in transit");
}

/// Takes a batch, and returns whether there was one.
fn takes(shared: &Shared) -> bool {
    matches!(shared.take(Waker::noop()), TakeResult::Batch(_))
}

fn deliver(shared: &Shared) -> bool {
    shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: 7 })
}

/// Returns a state in which a request has been made, and its withdrawal has been sent.
fn withdrawing() -> Shared {
    let shared = Shared::new("t", 0, None, Duration::ZERO);
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 0)));
    shared.stop_waiting();
    assert_eq!(shared.ask(), Some(WITHDRAWAL));
    shared
}

const WITHDRAWAL: BatchRequest = BatchRequest { batches: 0, taken_bytes: 0, withdraw: true };

#[test]
fn batches_that_are_not_requested_in_advance_are_withdrawn() {
    let shared = Shared::new("t", 0, Some(2), Duration::ZERO);
    assert_eq!(shared.ask(), None, "nobody waits");
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 0)));
    shared.stop_waiting();
    assert_eq!(shared.ask(), Some(WITHDRAWAL));
    assert!(shared.poll_withdrawn(Waker::noop()).is_pending());
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), None, "the withdrawal has not ended");
    assert!(shared.note_withdrawn("it is empty".to_owned()));
    assert_eq!(shared.poll_withdrawn(Waker::noop()), Poll::Ready(Some("it is empty".to_owned())));
    assert!(!shared.note_withdrawn(String::new()), "not asked for");
    for _ in 0..2 {
        assert!(!takes(&shared));
        assert_eq!(shared.ask().map(|ask| ask.batches), Some(1));
        assert!(deliver(&shared) && takes(&shared));
    }
    assert!(matches!(shared.take(Waker::noop()), TakeResult::NoMore), "both batches are counted once");
}

#[test]
fn a_batch_that_arrives_during_its_withdrawal_is_kept() {
    let shared = withdrawing();
    assert!(deliver(&shared));
    assert_eq!(shared.poll_withdrawn(Waker::noop()), Poll::Ready(None));
    assert!(takes(&shared));
    // A request before the answer to the withdrawal would be taken for a withdrawn one.
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), None);
    assert!(shared.note_withdrawn(String::new()) && !takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 7)));
    assert!(deliver(&shared) && takes(&shared));
    shared.stop_waiting();
    assert_eq!(shared.ask(), None, "there is no request to withdraw");
}

#[test]
fn a_wait_that_begins_and_ends_during_a_withdrawal_requests_nothing() {
    let shared = withdrawing();
    assert!(deliver(&shared) && takes(&shared) && !takes(&shared));
    shared.stop_waiting();
    assert!(shared.note_withdrawn(String::new()));
    assert_eq!(shared.ask(), None);
    assert_eq!(shared.counts(), (0, 0));
}

#[test]
fn the_end_of_the_connection_ends_the_wait_for_a_withdrawal() {
    let shared = withdrawing();
    shared.end(End::BulkUnavailable);
    assert_eq!(shared.poll_withdrawn(Waker::noop()), Poll::Ready(None));
    assert!(matches!(shared.take(Waker::noop()), TakeResult::BulkUnavailable(_)));
}

const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the time at which the caller gives up.
fn give_up_at(shared: &Shared) -> Option<Instant> {
    match shared.take(Waker::noop()) {
        TakeResult::Nothing { give_up_at } => give_up_at,
        taken => panic!("{taken:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_connection_ends_an_outage_that_nobody_waited_for() {
    let shared = Shared::new("t", 0, None, PATIENCE);
    shared.note_outage("it is gone".to_owned());
    advance(PATIENCE / 2).await;
    shared.note_connected();
    shared.note_outage("it is gone".to_owned());
    assert_eq!(give_up_at(&shared), Some(Instant::now() + PATIENCE));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_lasts_ends_an_outage_and_a_shorter_one_delays_the_error() {
    let shared = Shared::new("t", 0, None, PATIENCE);
    assert_eq!(give_up_at(&shared), None);
    shared.note_outage("it is gone".to_owned());
    let end = Some(Instant::now() + PATIENCE);
    assert_eq!(give_up_at(&shared), end);
    for life in [PATIENCE / 2, HEALTHY_LIFE] {
        assert_eq!(give_up_at(&shared), end);
        shared.note_connected();
        assert_eq!(give_up_at(&shared), None, "the limiter may block");
        advance(life).await;
        shared.note_outage("it is gone again".to_owned());
    }
    assert_eq!(give_up_at(&shared), Some(Instant::now() + PATIENCE), "a new outage");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_is_told_of_an_outage_unless_there_is_a_connection() {
    let shared = Shared::new("t", 0, None, PATIENCE);
    assert!(shared.outage().is_none());
    shared.note_outage("it is gone".to_owned());
    advance(PATIENCE / 2).await;
    let error = shared.outage().unwrap();
    assert_eq!(
        error.to_string(),
        "sample: no server has been reachable for table \"t\" for 500.0ms: it is gone"
    );
    assert_eq!(error.kind(), relive_connection::ErrorKind::Unavailable);
    assert_eq!(give_up_at(&shared), Some(Instant::now() + PATIENCE / 2), "the outage goes on");
    shared.note_connected();
    assert!(shared.outage().is_none());
}

#[test]
fn an_outage_ends_a_withdrawal_and_requests_that_nobody_waits_for() {
    let shared = Shared::new("t", 0, Some(1), Duration::ZERO);
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 0)));
    shared.stop_waiting();
    shared.note_outage("it is gone".to_owned());
    assert_eq!(shared.poll_withdrawn(Waker::noop()), Poll::Ready(Some(String::new())));
    assert_eq!(shared.ask(), None);
    assert!(!takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 0)), "it can still be requested");
}

#[test]
fn batches_requested_in_advance_are_not_withdrawn() {
    let shared = Shared::new("t", 2, None, Duration::ZERO);
    assert_eq!(shared.ask(), Some(BatchRequest::of(2, 0)));
    shared.stop_waiting();
    assert_eq!(shared.ask(), None);
    assert!(deliver(&shared) && takes(&shared));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 7)));
}

#[test]
fn many_consumed_bytes_are_acknowledged_before_the_next_request() {
    let shared = Shared::new("t", 4, None, Duration::ZERO);
    assert_eq!(shared.ask(), Some(BatchRequest::of(4, 0)));
    assert!(shared.deliver(Ready { batch: SampleBatch::new(Vec::new()), bytes: ACKNOWLEDGED_BYTES }));
    assert!(matches!(shared.take(Waker::noop()), TakeResult::Batch(_)));
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, ACKNOWLEDGED_BYTES)));
}

#[test]
fn bytes_of_a_partial_batch_are_acknowledged_before_it_is_complete() {
    let shared = Shared::new("t", 1, None, Duration::ZERO);
    assert_eq!(shared.ask(), Some(BatchRequest::of(1, 0)));
    for expected in [None, Some(BatchRequest::of(0, 2 * ACKNOWLEDGED_BYTES - 2)), None] {
        assert!(shared.deliver_part(std::iter::empty(), ACKNOWLEDGED_BYTES - 1, 1));
        assert_eq!(shared.ask(), expected);
    }
    shared.note_outage("it is gone".to_owned());
    let again = Some(BatchRequest::of(1, 0));
    assert_eq!(shared.ask(), again, "the new connection has not sent anything yet");
    assert!(shared.deliver_part(std::iter::empty(), 1, 1));
    assert_eq!(shared.ask(), None);
}
