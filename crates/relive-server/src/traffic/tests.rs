//! These tests use a clock that does not advance while any task can run.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ConnectionBudget, Load, Traffic, TrafficStatus};
use crate::limits::{MAX_CHARGED, MIN_CLIENT_BYTES_PER_SECOND, ROOM_RECHECK, STALLED_AFTER};

const MIB: u64 = 1 << 20;

fn traffic(max_bytes: u64) -> (Arc<Traffic>, ConnectionBudget, ConnectionBudget) {
    let traffic = Traffic::new(max_bytes);
    let [one, other] = ["10.0.0.1:1", "10.0.0.2:1"].map(|peer| traffic.enter(&Arc::from(peer)));
    (traffic, one, other)
}

async fn take(connection_budget: &ConnectionBudget, bytes: u64) -> Load {
    connection_budget.stream_budget().take(bytes).await
}

async fn grow(load: &mut Load, bytes: u64) {
    poll_fn(|cx| load.poll_grow(bytes, cx)).await;
}

async fn pass(time: Duration) {
    timeout(time, pending::<()>()).await.unwrap_err();
}

/// Waits for room, and then holds it.
fn waiting(connection_budget: &ConnectionBudget, bytes: u64) -> JoinHandle<Load> {
    let mut budget = connection_budget.stream_budget();
    tokio::spawn(async move { budget.take(bytes).await })
}

/// Returns whether the connection is dropped within `time`.
async fn is_cut(connection_budget: &ConnectionBudget, time: Duration) -> bool {
    timeout(time, connection_budget.cut()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_for_room_and_an_oversized_one_passes_alone() {
    let (traffic, one, other) = traffic(100);
    let first = take(&one, 1_000).await;
    let mut budget = other.stream_budget();
    assert!(timeout(ROOM_RECHECK * 3, budget.take(1)).await.is_err());
    assert_eq!(traffic.status(), TrafficStatus { bytes: 1_000, max_bytes: 100, waiting: 0, cut: 0 });
    let (second, ()) = tokio::join!(budget.take(1), async { drop(first) });
    assert_eq!(traffic.status().bytes, 1);
    drop(second);
    assert_eq!(traffic.status().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn only_stalled_clients_are_disconnected_and_only_if_another_waits() {
    let (traffic, stalled, moving) = traffic(100);
    let held = take(&stalled, 90).await;
    pass(STALLED_AFTER * 4).await;
    assert_eq!(traffic.status().cut, 0);
    let mine = take(&moving, 10).await;
    let mine = tokio::spawn(async move {
        loop {
            pass(Duration::from_secs(1)).await;
            mine.moved().fetch_add(MIN_CLIENT_BYTES_PER_SECOND, Ordering::Relaxed);
        }
    });
    let third = waiting(&traffic.enter(&Arc::from("10.0.0.3:1")), 5);
    assert!(!is_cut(&stalled, STALLED_AFTER).await);
    assert!(is_cut(&stalled, ROOM_RECHECK * 2).await);
    drop(held);
    third.await.unwrap();
    assert!(!is_cut(&moving, ROOM_RECHECK * 3).await);
    assert_eq!(traffic.status().cut, 1);
    mine.abort();
}

#[test]
fn only_one_waiter_checks_for_stalled_clients() {
    let traffic = Traffic::new(1);
    let recheck_ms = u64::try_from(ROOM_RECHECK.as_millis()).unwrap();
    let begin_ms = 10 * recheck_ms;
    let looks = |now_ms| (0..100).filter(|_| traffic.claim_check(now_ms)).count();
    assert_eq!([0, 1, recheck_ms - 1, recheck_ms].map(|later| looks(begin_ms + later)), [1, 0, 0, 1]);
    assert_eq!(looks(begin_ms), 0, "a thread that comes late sees the look of another");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_is_disconnected_despite_many_waiters() {
    let (traffic, stalled, other) = traffic(10);
    let held = take(&stalled, 10).await;
    let mut all = Vec::new();
    for _ in 0..50 {
        all.push(waiting(&other, 1));
        pass(ROOM_RECHECK / 7).await;
    }
    assert!(is_cut(&stalled, STALLED_AFTER).await);
    drop(held);
    for one in all {
        one.await.unwrap().arrived();
    }
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 10, waiting: 0, cut: 1 });
}

#[tokio::test(start_paused = true)]
async fn all_started_requests_but_one_wait() {
    let (traffic, connection_budget, _) = traffic(64 * MIB);
    let mut loads = Vec::new();
    for _ in 0..20 {
        let mut load = take(&connection_budget, 0).await;
        loads.push(tokio::spawn(async move {
            for bytes in 1..=100 {
                grow(&mut load, bytes * MIB).await;
            }
            load
        }));
    }
    pass(ROOM_RECHECK).await;
    let (done, waiting): (Vec<_>, Vec<_>) = loads.into_iter().partition(JoinHandle::is_finished);
    assert_eq!((done.len(), waiting.len()), (1, 19));
    let bytes = traffic.status().bytes;
    assert!(bytes <= (64 + 100) * MIB, "{bytes}");
    done.into_iter().for_each(|load| load.abort());
    let mut most = 0;
    for load in waiting {
        most = most.max(traffic.status().bytes);
        load.await.unwrap().arrived();
    }
    assert!(most <= (64 + 100) * MIB, "{most}");
}

#[tokio::test(start_paused = true)]
async fn many_loads_that_jointly_exceed_the_bound_all_complete() {
    let (traffic, connection_budget, other) = traffic(10 * MIB);
    let all = (1..=60).map(|number| {
        let mut budget =
            if number % 2 == 0 { connection_budget.stream_budget() } else { other.stream_budget() };
        tokio::spawn(async move {
            let mut load = budget.take(0).await;
            for bytes in 1..=number {
                grow(&mut load, bytes * MIB).await;
                tokio::task::yield_now().await;
            }
            load.arrived();
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 10 * MIB, waiting: 0, cut: 0 });
}

#[tokio::test(start_paused = true)]
async fn started_loads_have_priority_over_new_ones() {
    let (_traffic, one, other) = traffic(100);
    let mut growing_load = take(&other, 0).await;
    let large = take(&one, 90).await;
    let mut beyond = take(&one, 5).await;
    grow(&mut beyond, 50).await;
    let newcomer = waiting(&other, 1);
    let growing = tokio::spawn(async move {
        grow(&mut growing_load, 60).await;
        growing_load
    });
    pass(ROOM_RECHECK / 2).await;
    drop(large);
    pass(ROOM_RECHECK / 5).await;
    assert!(!newcomer.is_finished(), "50 and 60 are more than 100");
    assert!(!growing.is_finished());
    drop(beyond);
    let growing_load = growing.await.unwrap();
    newcomer.await.unwrap();
    drop(growing_load);
}

#[tokio::test(start_paused = true)]
async fn trickling_bytes_do_not_renew_the_stall_deadline() {
    let (traffic, trickling, other) = traffic(20);
    let mut load = take(&trickling, 0).await;
    grow(&mut load, 20).await;
    let trickle = tokio::spawn(async move {
        for bytes in 21.. {
            pass(Duration::from_secs(8)).await;
            grow(&mut load, bytes).await;
        }
    });
    let honest = waiting(&other, 1);
    assert!(!is_cut(&trickling, STALLED_AFTER).await);
    assert!(is_cut(&trickling, ROOM_RECHECK * 2).await);
    trickle.abort();
    honest.await.unwrap();
    assert_eq!(traffic.status().cut, 1);
}

#[tokio::test(start_paused = true)]
async fn abandoning_loads_in_turn_does_not_renew_the_deadline() {
    let (_traffic, reader, other) = traffic(20);
    let mut holders: Vec<_> = (0..4).map(|_| waiting(&reader, 5)).collect();
    holders.extend((0..50).map(|_| waiting(&reader, 5)));
    let mut honest = waiting(&other, 1);
    let give_up = async {
        loop {
            // All loads that hold bytes are abandoned before any of them counts as stalled.
            pass(STALLED_AFTER * 2 / 3).await;
            holders.retain(|holder| !holder.is_finished());
        }
    };
    let cut = tokio::select! {
        () = give_up => false,
        cut = is_cut(&reader, STALLED_AFTER + ROOM_RECHECK * 2) => cut,
    };
    assert!(cut);
    holders.into_iter().for_each(|holder| holder.abort());
    timeout(ROOM_RECHECK * 3, &mut honest).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stalling_host_that_reconnects_is_soon_disconnected() {
    let (traffic, mut stalled, other) = traffic(20);
    let mut held = take(&stalled, 20).await;
    let honest = waiting(&other, 1);
    assert!(is_cut(&stalled, STALLED_AFTER + ROOM_RECHECK * 2).await);
    for port in 2..10 {
        let again = traffic.enter(&Arc::from(format!("10.0.0.1:{port}")));
        // The new connection takes the room, because its request arrives before another stream is woken.
        drop(held);
        held = take(&again, 20).await;
        stalled = again;
        let patience = STALLED_AFTER - MAX_CHARGED + ROOM_RECHECK * 2;
        assert!(!honest.is_finished() && is_cut(&stalled, patience).await, "{port}");
    }
    drop(held);
    honest.await.unwrap().arrived();
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 20, waiting: 0, cut: 9 });
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_stalling_host_proceed_if_they_make_progress() {
    let (traffic, stalled, other) = traffic(MIB);
    let held = take(&stalled, 10 * MIB).await;
    let waits = waiting(&other, 1);
    assert!(is_cut(&stalled, STALLED_AFTER + ROOM_RECHECK * 2).await);
    drop(held);
    waits.await.unwrap().arrived();
    let neighbor = traffic.enter(&Arc::from("10.0.0.1:9"));
    let mut load = take(&neighbor, 0).await;
    let waits = waiting(&other, MIB);
    for second in 1..=60 {
        grow(&mut load, second * (MIN_CLIENT_BYTES_PER_SECOND + MIB)).await;
        assert!(!is_cut(&neighbor, Duration::from_secs(1)).await, "{second}");
    }
    load.arrived();
    waits.await.unwrap();
    assert_eq!(traffic.status().cut, 1);
}

#[tokio::test(start_paused = true)]
async fn repeated_short_waits_do_not_reset_the_stall_deadline() {
    let (_traffic, stalled, other) = traffic(20);
    let _held = take(&stalled, 20).await;
    let patience = STALLED_AFTER / 3;
    for _ in 0..3 {
        assert!(timeout(patience, other.stream_budget().take(1)).await.is_err());
        pass(Duration::from_secs(1)).await;
    }
    let honest = waiting(&other, 1);
    assert!(is_cut(&stalled, ROOM_RECHECK * 2).await);
    honest.abort();
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_above_the_minimum_rate_is_not_disconnected() {
    let (traffic, slow, other) = traffic(MIB);
    let mut load = take(&slow, 0).await;
    let honest = waiting(&other, MIB);
    // This takes much longer than the half minute that a stalled client has.
    for second in 1..=300 {
        grow(&mut load, second * (MIN_CLIENT_BYTES_PER_SECOND + MIB)).await;
        assert!(!is_cut(&slow, Duration::from_secs(1)).await, "{second}");
    }
    load.arrived();
    honest.await.unwrap();
    assert_eq!(traffic.status().cut, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_taking_small_batches_steadily_is_not_disconnected() {
    let (traffic, reader, other) = traffic(MIB);
    let blocking = take(&other, 10 * MIB).await;
    let waits = waiting(&other, 1);
    let hold = async {
        loop {
            blocking.moved().fetch_add(MIN_CLIENT_BYTES_PER_SECOND, Ordering::Relaxed);
            pass(Duration::from_secs(1)).await;
        }
    };
    let read = async {
        let mut budget = reader.stream_budget();
        for _ in 0..200 {
            let load = timeout(Duration::from_secs(1), budget.take(MIB)).await;
            pass(Duration::from_secs(2)).await;
            load.into_iter().for_each(Load::arrived);
        }
    };
    tokio::select! { () = hold => {}, () = read => {} }
    assert_eq!(traffic.status().cut, 0);
    waits.abort();
}

#[tokio::test(start_paused = true)]
async fn a_started_request_waiting_for_room_is_not_disconnected() {
    let (traffic, moving, waits) = traffic(20);
    let mut held = take(&waits, 10).await;
    let mut large = take(&moving, 10).await;
    grow(&mut large, 1_000).await;
    let growing = tokio::spawn(async move {
        grow(&mut held, 30).await;
        held
    });
    for second in 1..=100 {
        grow(&mut large, second * (MIN_CLIENT_BYTES_PER_SECOND + 1_000)).await;
        assert!(!is_cut(&waits, Duration::from_secs(1)).await);
    }
    large.arrived();
    growing.await.unwrap().arrived();
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 20, waiting: 0, cut: 0 });
}

#[tokio::test(start_paused = true)]
async fn all_waiting_loads_eventually_complete() {
    let (traffic, connection_budget, _) = traffic(10);
    let all = (0..200).map(|_| {
        let mut budget = connection_budget.stream_budget();
        tokio::spawn(async move {
            let load = budget.take(7).await;
            tokio::task::yield_now().await;
            drop(load);
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 10, waiting: 0, cut: 0 });
}
