//! Looking into graphs: operators with names, and those of shards.

use relive_flow::{Async, Executor, Flow, Order, ParFlow};

const EXECUTORS: [Executor; 2] = [Executor::Serial, Executor::Threads];

#[test]
fn operators_of_shards_are_shown_once_and_their_items_are_summed() {
    for executor in &EXECUTORS {
        let numbers = ParFlow::from_range(executor, 6, 3).for_each(|number| number + 1).named("next");
        let mut flow = numbers.gather_sync().batch(2);
        assert_eq!(
            flow.show(),
            "0  gather_sync of 3 shards           0 items\n1  batch(2)                   ← 0    0 items\n"
        );
        assert_eq!(flow.next().unwrap().unwrap(), [1, 3]);
        assert_eq!(
            flow.show(),
            "0  range                             3 items in 3 shards\n\
             1  next                       ← 0    3 items in 3 shards\n\
             2  gather_sync of 3 shards    ← 1    2 items\n\
             3  batch(2)                   ← 2    1 item\n"
        );
        assert!(flow.mermaid().starts_with(
            "flowchart LR\n    n0[\"range in 3 shards\"]\n    n1[\"next in 3 shards\"]\n    n0 --> n1\n"
        ));
        while flow.next().is_some() {}
        let told: Vec<_> =
            flow.monitor().operators().into_iter().map(|status| (status.shards, status.items)).collect();
        assert_eq!(told, [(Some(3), 6), (Some(3), 6), (None, 6), (None, 3)]);
    }
}

#[test]
fn shards_that_do_different_things_are_told_apart() {
    let mixed = ParFlow::from_range(&Executor::Serial, 4, 4).on_each(|flow, shard| match shard.number() {
        0 => flow.filter(|_| true),
        _ => {
            let [one, other] = flow.duplicate(1);
            Flow::union([one, other], Order::RoundRobin)
        }
    });
    let inner = ParFlow::from_flows(
        &Executor::Serial,
        2,
        |_| (),
        |_| ParFlow::from_items(&Executor::Serial, [1, 2], 2).gather_sync(),
    );
    let mut flow = Flow::union(
        [mixed.gather_async(Async::default()), inner.gather_async(Async::default())],
        Order::RoundRobin,
    );
    for _ in 0..8 {
        flow.next().unwrap().unwrap();
    }
    let told = flow.monitor().operators();
    let told: Vec<_> =
        told.iter().map(|status| (status.name.as_str(), status.shards, &status.inputs[..])).collect();
    let expected: [(&str, Option<usize>, &[usize]); 10] = [
        ("range", Some(1), &[]),
        ("filter", Some(1), &[0]),
        ("range", Some(3), &[]),
        ("copy 0 of 2", Some(3), &[2]),
        ("copy 1 of 2", Some(3), &[2]),
        ("union", Some(3), &[3, 4]),
        ("gather_async of 4 shards", None, &[1, 5]),
        ("items", Some(4), &[]),
        ("gather_sync of 2 shards", Some(2), &[7]),
        ("gather_async of 2 shards", None, &[8]),
    ];
    assert_eq!(told[..10], expected);
}

#[test]
fn errors_call_operators_by_their_names() {
    let odd = |number: u64| if number % 2 == 1 { Err("it is odd") } else { Ok(number) };
    for executor in &EXECUTORS {
        let numbers =
            ParFlow::from_range(executor, 4, 2).on_each(move |flow, _| flow.try_for_each(odd)).named("halve");
        let mut flow = numbers.gather_sync().combine(|number| {
            assert!(number < 2, "too large");
            [number; 2]
        });
        flow = flow.named("passing").named("repeat");
        let told = std::iter::from_fn(|| flow.next()).filter_map(|item| Some(item.err()?.to_string()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "repeat panicked at item 1 of shard 1: too large",
                "halve failed at item 1 of shard 0: it is odd",
                "halve failed at item 1 of shard 1: it is odd",
            ]
        );
        assert_eq!(flow.monitor().operators()[3].errors, 3);
    }
    let fault = Flow::from_iter("numbers", 0..3).batch(0).named("pairs").next().unwrap().unwrap_err();
    assert_eq!(fault.to_string(), "pairs: a batch has at least one item");
}
