//! Shards in threads: barriers, lag, prefetching, and stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use relive_flow::{Async, Executor, Flow, ParFlow, Polled, Pull, Resubmit, Tagged, Turn};

/// Returns shards that repeatedly yield their state, which is a number.
fn numbered(executor: &Executor, shards: u32) -> ParFlow<u32, u32> {
    ParFlow::from_states(executor, shards, |_| 0, |state| Some(*state))
}

#[test]
fn changes_between_rounds_apply_to_the_whole_next_round() {
    for executor in [Executor::Serial, Executor::Threads] {
        let par = numbered(&executor, 3);
        let shards = par.shards();
        let mut flow = par.gather_sync();
        for version in 1..50 {
            let round: Vec<u32> = (0..3).map(|_| flow.next().unwrap().unwrap()).collect();
            assert_eq!(round, [version - 1; 3]);
            shards.iter().for_each(|shard| shard.with(|state| *state = version));
        }
    }
}

#[test]
fn a_shard_with_resubmit_after_sees_changes() {
    let par = numbered(&Executor::Threads, 1);
    let shard = par.shards().remove(0);
    let mut flow = par.gather_async(Async { depth: 1, resubmit: Resubmit::After });
    for version in 1..200 {
        assert_eq!(flow.next().unwrap().unwrap(), version - 1);
        shard.with(|state| *state = version);
    }
}

#[test]
fn shards_prefetch_at_most_their_depth() {
    let made = Arc::new(AtomicUsize::new(0));
    let of_shard = Arc::clone(&made);
    let par = ParFlow::from_states(
        &Executor::Threads,
        1,
        |_| (),
        move |()| Some(of_shard.fetch_add(1, Ordering::SeqCst)),
    );
    let mut flow = par.gather_async(Async { depth: 4, resubmit: Resubmit::Before });
    for item in 0..1_000 {
        assert_eq!(flow.next().unwrap().unwrap(), item);
        assert!(made.load(Ordering::SeqCst) <= item + 1 + 4);
    }
}

#[test]
fn all_items_arrive_once_and_in_order_within_a_shard() {
    let par = ParFlow::from_range(&Executor::Threads, 20_000, 4);
    let mut flow = par.gather_async(Async { depth: 8, resubmit: Resubmit::Before }).zip_with_source();
    let mut next = [0, 5_000, 10_000, 15_000];
    while let Some(item) = flow.next() {
        let (source, item) = item.unwrap();
        let expected = &mut next[source.0 as usize];
        assert_eq!(item, *expected);
        *expected += 1;
    }
    assert_eq!(next, [5_000, 10_000, 15_000, 20_000]);
}

/// The function sees each item of a shard alone, whether the stream had to wait for it or not, and keeps its shard in a
/// union.
#[test]
fn a_function_is_called_around_each_item() {
    struct Waits(u32);
    impl Pull<u32> for Waits {
        fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<u32> {
            self.0 += 1;
            if self.0 % 2 == 1 {
                turn.waker().wake_by_ref();
                return Poll::Pending;
            }
            let item = (self.0 <= 200).then_some(Ok(Tagged { item: self.0, source: None }));
            Poll::Ready(item)
        }
    }
    let inside = Arc::new([(); 4].map(|()| AtomicUsize::new(0)));
    let counted = |first: usize, shards: ParFlow<u32>| {
        let inside = Arc::clone(&inside);
        shards.around(move |number, make| {
            let inside = &inside[first + number as usize];
            loop {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                let makes_more = make();
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                if !makes_more {
                    break;
                }
            }
        })
    };
    let seen = Arc::clone(&inside);
    let waits = ParFlow::from_flows(&Executor::Threads, 2, |_| (), |_| Flow::from_pull("waits", Waits(0)));
    let ready = ParFlow::from_items(&Executor::Threads, 0..200, 2);
    let shards = counted(0, waits).union(counted(2, ready)).on_each(move |flow, shard| {
        let (seen, place) = (Arc::clone(&seen), shard.source().0 as usize);
        flow.for_each(move |_| seen[place].load(Ordering::SeqCst))
    });
    let found: Vec<_> = shards.gather_async(Async { depth: 8, ..Async::default() }).into_iter().collect();
    assert_eq!(found.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [1; 400]);
}

#[test]
fn a_dropped_flow_ends_its_shards() {
    let alive = Arc::new(());
    let state = Arc::clone(&alive);
    let mut flow = ParFlow::from_states(&Executor::Threads, 4, move |_| Arc::clone(&state), |_| Some(1))
        .gather_async(Async { depth: 100, resubmit: Resubmit::Before });
    assert_eq!(flow.next().unwrap().unwrap(), 1);
    drop(flow);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn copies_in_threads_wait_for_each_other() {
    let [one, other] = Flow::from_iter("numbers", 0..10_000_u64).duplicate(3);
    let sum = |mut flow: Flow<u64>| {
        let mut sum = 0;
        // The other thread may not have started yet.
        while let Some(item) = flow.next_within(std::time::Duration::from_secs(60)) {
            sum += item.unwrap();
        }
        sum
    };
    let sums = thread::scope(|scope| {
        [scope.spawn(move || sum(one)), scope.spawn(move || sum(other))].map(|thread| thread.join().unwrap())
    });
    assert_eq!(sums, [49_995_000; 2]);
}

#[test]
fn prefetched_items_arrive_in_order_and_within_the_depth() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let items = std::iter::from_fn(move || Some(counter.fetch_add(1, Ordering::SeqCst)));
    let mut flow = Flow::from_iter("items", items).prefetch(5);
    assert_eq!(made.load(Ordering::SeqCst), 0);
    for item in 0..1_000 {
        assert_eq!(flow.next().unwrap().unwrap(), item);
        assert!(made.load(Ordering::SeqCst) <= item + 1 + 5);
    }
    let short = Flow::from_iter("items", 0..3).prefetch(100).prefetch(2);
    assert_eq!(short.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), [0, 1, 2]);
}

#[test]
fn each_shard_is_a_separate_flow() {
    for executor in [Executor::Serial, Executor::Threads] {
        let flows = ParFlow::from_range(&executor, 9, 2).into_flows(3);
        let items = flows.into_iter().map(|flow| flow.into_iter().collect::<Result<Vec<_>, _>>().unwrap());
        assert_eq!(items.collect::<Vec<_>>(), [vec![0, 1, 2, 3], vec![4, 5, 6, 7, 8]]);
    }
}
