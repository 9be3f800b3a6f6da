//! Explores every interleaving of threads that produce items, pass them on, wait and stop. Run with `RUSTFLAGS="--cfg
//! relive_loom"`.
#![cfg(relive_loom)]

use loom::thread;
use relive_flow::{Async, Executor, Flow, Lead, Order, ParFlow, Resubmit, Stepped};

/// Explores the interleavings of two threads with up to three preemptions.
fn model(run: impl Fn() + Send + Sync + 'static) {
    model_with(3, run);
}

/// Explores the interleavings of three threads with up to two preemptions; a third one takes a minute per test.
fn model_of_three(run: impl Fn() + Send + Sync + 'static) {
    model_with(2, run);
}

/// Explores interleavings with up to the given number of preemptions.
fn model_with(switches: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(run);
}

fn numbers(count: u32) -> Flow<u32> {
    Flow::from_iter("numbers", 0..count)
}

fn items(flow: Flow<u32>) -> Vec<u32> {
    flow.into_iter().map(Result::unwrap).collect()
}

#[test]
fn a_prefetching_flow_returns_all_items_and_the_end() {
    model(|| assert_eq!(items(numbers(2).prefetch(1)), [0, 1]));
    model(|| assert_eq!(items(numbers(2).prefetch(2)), [0, 1]));
}

#[test]
fn a_dropped_flow_ends_its_thread_at_any_point() {
    model(|| drop(numbers(2).prefetch(1)));
    model(|| {
        let mut flow = numbers(3).prefetch(2);
        assert_eq!(flow.next().unwrap().unwrap(), 0);
    });
}

#[test]
fn shards_asked_before_delivery_lose_nothing() {
    model_of_three(|| gather_from_threads(Resubmit::Before));
}

#[test]
fn shards_asked_after_delivery_lose_nothing() {
    model_of_three(|| gather_from_threads(Resubmit::After));
}

fn gather_from_threads(resubmit: Resubmit) {
    let shards = ParFlow::from_range(&Executor::Threads, 2, 2);
    let mut found: Vec<u64> =
        shards.gather_async(Async { depth: 1, resubmit }).into_iter().map(Result::unwrap).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1]);
}

#[test]
fn a_waiter_on_several_flows_is_woken_by_each() {
    model_of_three(|| {
        let mut joined = items(Flow::union([numbers(1).prefetch(1), numbers(1).prefetch(1)], Order::Ready));
        joined.sort_unstable();
        assert_eq!(joined, [0, 0]);
    });
}

#[test]
fn copies_in_two_threads_wait_for_each_other_and_continue() {
    model(|| {
        let [mut one, mut other] = numbers(3).duplicate(1);
        // From now on, each copy has recorded that another thread pulls the other copy.
        for copy in [&mut one, &mut other] {
            assert_eq!(copy.step().unwrap(), Stepped::Item(0));
        }
        let reader = thread::spawn(move || assert_eq!(items(one), [1, 2]));
        assert_eq!(items(other), [1, 2]);
        reader.join().unwrap();
    });
}

#[test]
fn copies_that_drop_items_do_not_wait_for_each_other() {
    model(|| {
        let [one, other] = numbers(3).duplicate(Lead::dropping_oldest(1));
        let reader = thread::spawn(move || items(one));
        let (here, there) = (items(other), reader.join().unwrap());
        assert!([&here, &there].iter().all(|found| found.is_sorted_by(|left, right| left < right)));
        assert!((0..3).all(|number| here.contains(&number) || there.contains(&number)));
    });
}

#[test]
fn repartitioned_items_wake_waiting_shards() {
    model_with(1, || {
        let dealt = ParFlow::from_range(&Executor::Threads, 2, 1).repartition(2);
        let mut found: Vec<u64> =
            dealt.gather_async(Async::default()).into_iter().map(Result::unwrap).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
    });
}

#[test]
fn repartitioned_shards_stop_at_any_point() {
    model_with(1, || {
        let mut flow = ParFlow::from_range(&Executor::Threads, 3, 1).repartition(2).gather_sync();
        assert_eq!(flow.next().unwrap().unwrap(), 0);
    });
}

#[test]
fn functions_in_threads_return_every_result_and_stop_at_any_point() {
    let same = |_: relive_flow::Context<'_>, number: u32| Ok::<_, String>(number);
    model_of_three(move || {
        let mut found = items(numbers(2).try_for_each_in_threads(2, same));
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
    });
    model_of_three(move || {
        let mut flow = numbers(3).try_for_each_in_threads(2, same);
        assert!(flow.next().unwrap().is_ok());
    });
}
