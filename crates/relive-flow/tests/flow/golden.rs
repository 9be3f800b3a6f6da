//! Results of `ray.util.iter` 2.60.

use relive_flow::{Executor, Flow, Order, ParFlow, Stepped, Weight};

const EXECUTORS: [Executor; 2] = [Executor::Serial, Executor::Threads];

fn all<T: 'static>(flow: Flow<T>) -> Vec<T> {
    flow.into_iter().collect::<Result<_, _>>().unwrap()
}

/// Returns two shards, one with the items 0 to 3, and one with the items 0 and 1.
fn uneven(executor: &Executor) -> ParFlow<u32> {
    ParFlow::from_flows(
        executor,
        2,
        |_| (),
        |shard| Flow::from_iter("items", 0..[4, 2][shard.source().0 as usize]),
    )
}

fn flow(items: &'static str) -> Flow<char> {
    Flow::from_iter("letters", items.chars())
}

fn text(flow: Flow<char>) -> String {
    all(flow).into_iter().collect()
}

#[test]
fn ended_shards_are_skipped_in_rounds() {
    for executor in &EXECUTORS {
        assert_eq!(all(uneven(executor).gather_sync()), [0, 0, 1, 1, 2, 3]);
        let rounds = all(uneven(executor).batch_across_shards());
        assert_eq!(rounds, [vec![0, 0], vec![1, 1], vec![2], vec![3]]);
    }
}

#[test]
fn a_chain_of_parallel_operators() {
    for executor in &EXECUTORS {
        let range = ParFlow::from_range(executor, 10, 2);
        let batches =
            range.for_each(|number| number * 2).filter(|number| number % 4 == 0).batch(2).gather_sync();
        assert_eq!(all(batches), [vec![0, 4], vec![12, 16], vec![8]]);
    }
}

#[test]
fn joined_shards_are_read_in_turn() {
    for executor in &EXECUTORS {
        let (one, other) =
            (ParFlow::from_items(executor, "abc".chars(), 1), ParFlow::from_items(executor, "x".chars(), 1));
        assert_eq!(text(one.union(other).gather_sync()), "axbc");
    }
}

#[test]
fn joined_flows_are_read_in_turn_or_by_weight() {
    let all_of = Weight::All;
    let times = Weight::Times;
    let joined =
        |flows: &[&'static str], order| text(Flow::union(flows.iter().map(|items| flow(items)), order));
    assert_eq!(joined(&["123", "456"], Order::RoundRobin), "142536");
    assert_eq!(joined(&["111", "222"], Order::weighted([times(2.0), times(1.0)])), "112122");
    assert_eq!(joined(&["111", "222"], Order::weighted([times(1.0), all_of])), "122211");
    assert_eq!(joined(&["111", "222"], Order::weighted([all_of, Weight::UpTo(1)])), "111222");
    assert_eq!(joined(&["111", "222"], Order::weighted([Weight::UpTo(2), Weight::UpTo(1)])), "112122");
    assert_eq!(
        joined(&["111", "222", "333"], Order::weighted([times(3.0), times(1.0), times(2.0)])),
        "111233232"
    );
    assert_eq!(
        joined(&["111", "222", "333"], Order::weighted([times(1.0), times(1.0), all_of])),
        "123331212"
    );
}

#[test]
fn fractional_weights_hold_on_average() {
    let weights = vec![Weight::Times(1.0), Weight::Times(2.25)];
    let endless = |number: u32| Flow::from_iter("numbers", std::iter::repeat(number));
    let joined = Flow::union([endless(0), endless(1)], Order::Weighted { weights, seed: 7 }).take(32_500);
    let seconds = all(joined).into_iter().sum::<u32>();
    assert!((22_250..22_750).contains(&seconds), "{seconds} of 32,500, where 22,500 are expected");
}

#[test]
fn copies_are_read_in_turn() {
    let [one, other] = Flow::from_iter("numbers", 0..4).duplicate(1);
    assert_eq!(all(Flow::union([one, other], Order::RoundRobin)), [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_single_copy_waits_for_the_other() {
    let [mut one, _other] = Flow::from_iter("numbers", 0..4).duplicate(1);
    assert_eq!(one.step().unwrap(), Stepped::Item(0));
    assert_eq!(one.step().unwrap(), Stepped::Waiting);
    assert_eq!(one.step().unwrap(), Stepped::Waiting);
}

#[test]
fn a_batched_copy_and_an_unbatched_copy() {
    let [one, other] = Flow::from_iter("numbers", 0..5).duplicate(1);
    let joined = Flow::union([one.for_each(|number| vec![number]), other.batch(2)], Order::Ready);
    let expected: [&[i32]; 8] = [&[0], &[0, 1], &[1], &[2], &[2, 3], &[3], &[4], &[4]];
    assert_eq!(all(joined), expected);
}

#[test]
fn a_shuffle_is_the_same_for_the_same_seed() {
    let shuffled = |seed| all(Flow::from_iter("numbers", 0..50).shuffle(10, seed));
    assert_eq!(shuffled(1), shuffled(1));
    assert_ne!(shuffled(1), shuffled(2));
    let mut sorted = shuffled(1);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    assert_eq!(all(Flow::from_iter("numbers", 0..50).shuffle(1, 1)), (0..50).collect::<Vec<_>>());
}
