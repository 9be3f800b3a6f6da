//! Uses a clock that stands still while any task can run.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Line, Load, Traffic, TrafficStatus};
use crate::limits::{MIN_CLIENT_BYTES_PER_SECOND, MOST_CHARGED, ROOM_RECHECK, STALLED_AFTER};

const MIB: u64 = 1 << 20;

fn traffic(max_bytes: u64) -> (Arc<Traffic>, Line, Line) {
    let traffic = Traffic::new(max_bytes);
    let [one, other] = ["10.0.0.1:1", "10.0.0.2:1"].map(|peer| traffic.enter(&Arc::from(peer)));
    (traffic, one, other)
}

async fn take(line: &Line, bytes: u64) -> Load {
    line.budget().take(bytes).await
}

async fn grow(load: &mut Load, bytes: u64) {
    poll_fn(|cx| load.poll_grow(bytes, cx)).await;
}

async fn pass(time: Duration) {
    timeout(time, pending::<()>()).await.unwrap_err();
}

/// Waits for room, and then holds it.
fn waiting(line: &Line, bytes: u64) -> JoinHandle<Load> {
    let mut budget = line.budget();
    tokio::spawn(async move { budget.take(bytes).await })
}

/// Whether the connection is dropped within `time`.
async fn is_cut(line: &Line, time: Duration) -> bool {
    timeout(time, line.cut()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_for_room_and_one_that_is_too_large_for_any_passes_alone() {
    let (traffic, one, other) = traffic(100);
    let first = take(&one, 1_000).await;
    let mut budget = other.budget();
    assert!(timeout(ROOM_RECHECK * 3, budget.take(1)).await.is_err());
    assert_eq!(traffic.status(), TrafficStatus { bytes: 1_000, max_bytes: 100, waiting: 0, cut: 0 });
    let (second, ()) = tokio::join!(budget.take(1), async { drop(first) });
    assert_eq!(traffic.status().bytes, 1);
    drop(second);
    assert_eq!(traffic.status().bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_cut_while_nobody_waits_and_then_only_who_does_not_move() {
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
fn of_all_who_wait_one_looks_for_stalled_clients() {
    let traffic = Traffic::new(1);
    let recheck_ms = u64::try_from(ROOM_RECHECK.as_millis()).unwrap();
    let begin_ms = 10 * recheck_ms;
    let looks = |now_ms| (0..100).filter(|_| traffic.takes_the_look(now_ms)).count();
    assert_eq!([0, 1, recheck_ms - 1, recheck_ms].map(|later| looks(begin_ms + later)), [1, 0, 0, 1]);
    assert_eq!(looks(begin_ms), 0, "a thread that comes late sees the look of another");
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_still_have_a_stalled_client_cut() {
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
async fn requests_that_have_begun_wait_too_all_but_one() {
    let (traffic, line, _) = traffic(64 * MIB);
    let mut loads = Vec::new();
    for _ in 0..20 {
        let mut load = take(&line, 0).await;
        loads.push(tokio::spawn(async move {
            for come in 1..=100 {
                grow(&mut load, come * MIB).await;
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
async fn all_of_many_that_exceed_the_bound_together_get_through() {
    let (traffic, line, other) = traffic(10 * MIB);
    let all = (1..=60).map(|number| {
        let mut budget = if number % 2 == 0 { line.budget() } else { other.budget() };
        tokio::spawn(async move {
            let mut load = budget.take(0).await;
            for come in 1..=number {
                grow(&mut load, come * MIB).await;
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
async fn whoever_has_begun_goes_before_those_who_have_not() {
    let (_traffic, one, other) = traffic(100);
    let mut begun = take(&other, 0).await;
    let large = take(&one, 90).await;
    let mut beyond = take(&one, 5).await;
    grow(&mut beyond, 50).await;
    let newcomer = waiting(&other, 1);
    let growing = tokio::spawn(async move {
        grow(&mut begun, 60).await;
        begun
    });
    pass(ROOM_RECHECK / 2).await;
    drop(large);
    pass(ROOM_RECHECK / 5).await;
    assert!(!newcomer.is_finished(), "50 and 60 are more than 100");
    assert!(!growing.is_finished());
    drop(beyond);
    let begun = growing.await.unwrap();
    newcomer.await.unwrap();
    drop(begun);
}

#[tokio::test(start_paused = true)]
async fn bytes_now_and_then_renew_nothing() {
    let (traffic, trickling, other) = traffic(20);
    let mut load = take(&trickling, 0).await;
    grow(&mut load, 20).await;
    let trickle = tokio::spawn(async move {
        for come in 21.. {
            pass(Duration::from_secs(8)).await;
            grow(&mut load, come).await;
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
async fn giving_up_loads_in_turn_renews_nothing() {
    let (_traffic, reader, other) = traffic(20);
    let mut holders: Vec<_> = (0..4).map(|_| waiting(&reader, 5)).collect();
    holders.extend((0..50).map(|_| waiting(&reader, 5)));
    let mut honest = waiting(&other, 1);
    let give_up = async {
        loop {
            // All loads that hold bytes are abandoned before any of them has stalled.
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
async fn who_stalls_and_comes_again_by_another_connection_is_cut_soon() {
    let (traffic, mut stalled, other) = traffic(20);
    let mut held = take(&stalled, 20).await;
    let honest = waiting(&other, 1);
    assert!(is_cut(&stalled, STALLED_AFTER + ROOM_RECHECK * 2).await);
    for port in 2..10 {
        let again = traffic.enter(&Arc::from(format!("10.0.0.1:{port}")));
        // It is first, because its request arrives before another stream is woken.
        drop(held);
        held = take(&again, 20).await;
        stalled = again;
        let patience = STALLED_AFTER - MOST_CHARGED + ROOM_RECHECK * 2;
        assert!(!honest.is_finished() && is_cut(&stalled, patience).await, "{port}");
    }
    drop(held);
    honest.await.unwrap().arrived();
    assert_eq!(traffic.status(), TrafficStatus { bytes: 0, max_bytes: 20, waiting: 0, cut: 9 });
}

#[tokio::test(start_paused = true)]
async fn others_of_a_host_that_stalls_get_through_if_they_move() {
    let (traffic, stalled, other) = traffic(MIB);
    let held = take(&stalled, 10 * MIB).await;
    let waits = waiting(&other, 1);
    assert!(is_cut(&stalled, STALLED_AFTER + ROOM_RECHECK * 2).await);
    drop(held);
    waits.await.unwrap().arrived();
    let neighbour = traffic.enter(&Arc::from("10.0.0.1:9"));
    let mut load = take(&neighbour, 0).await;
    let waits = waiting(&other, MIB);
    for second in 1..=60 {
        grow(&mut load, second * (MIN_CLIENT_BYTES_PER_SECOND + MIB)).await;
        assert!(!is_cut(&neighbour, Duration::from_secs(1)).await, "{second}");
    }
    load.arrived();
    waits.await.unwrap();
    assert_eq!(traffic.status().cut, 1);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_and_comes_again_does_not_set_the_clock_back() {
    let (_traffic, stalled, other) = traffic(20);
    let _held = take(&stalled, 20).await;
    let patience = STALLED_AFTER / 3;
    for _ in 0..3 {
        assert!(timeout(patience, other.budget().take(1)).await.is_err());
        pass(Duration::from_secs(1)).await;
    }
    let honest = waiting(&other, 1);
    assert!(is_cut(&stalled, ROOM_RECHECK * 2).await);
    honest.abort();
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_above_the_rate_is_not_cut() {
    let (traffic, slow, other) = traffic(MIB);
    let mut load = take(&slow, 0).await;
    let honest = waiting(&other, MIB);
    // Much more than its first half minute allows.
    for second in 1..=300 {
        grow(&mut load, second * (MIN_CLIENT_BYTES_PER_SECOND + MIB)).await;
        assert!(!is_cut(&slow, Duration::from_secs(1)).await, "{second}");
    }
    load.arrived();
    honest.await.unwrap();
    assert_eq!(traffic.status().cut, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_small_batches_steadily_is_not_cut() {
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
        let mut budget = reader.budget();
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
async fn who_waits_for_room_with_a_request_that_has_begun_is_not_cut_for_it() {
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
async fn all_who_wait_get_through_in_the_end() {
    let (traffic, line, _) = traffic(10);
    let all = (0..200).map(|_| {
        let mut budget = line.budget();
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
