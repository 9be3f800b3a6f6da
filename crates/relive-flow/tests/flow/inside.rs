//! Inspecting graphs: named operators, and operators of shards.

use std::time::Duration;

use proptest::prelude::*;
use relive_flow::{Async, ErrorKind, Executor, Flow, OnFailure, Order, ParFlow, Stepped};

use crate::checkpoint::{graph, joined};
use crate::faults::Silent;
use crate::plain::steps;

const EXECUTORS: [Executor; 2] = [Executor::Serial, Executor::Threads];

#[test]
fn operators_of_shards_are_shown_once_with_summed_items() {
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
        let actual: Vec<_> =
            flow.monitor().operators().into_iter().map(|status| (status.shards, status.items)).collect();
        assert_eq!(actual, [(Some(3), 6), (Some(3), 6), (None, 6), (None, 3)]);
    }
}

#[test]
fn different_shards_are_shown_separately() {
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
    let actual = flow.monitor().operators();
    let actual: Vec<_> =
        actual.iter().map(|status| (status.name.as_str(), status.shards, &status.inputs[..])).collect();
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
    assert_eq!(actual[..10], expected);
}

#[test]
fn errors_name_operators() {
    let odd = |number: u64| if number % 2 == 1 { Err("it is odd") } else { Ok(number) };
    for executor in &EXECUTORS {
        let numbers =
            ParFlow::from_range(executor, 4, 2).on_each(move |flow, _| flow.try_for_each(odd)).named("halve");
        let mut flow = numbers.gather_sync().combine(|number| {
            assert!(number < 2, "too large");
            [number; 2]
        });
        flow = flow.named("passing").named("repeat");
        let text = std::iter::from_fn(|| flow.next()).filter_map(|item| Some(item.err()?.to_string()));
        assert_eq!(
            text.collect::<Vec<_>>(),
            [
                "repeat panicked at item 1 of shard 1: too large",
                "halve failed at item 1 of shard 0: it is odd",
                "halve failed at item 1 of shard 1: it is odd",
            ]
        );
        assert_eq!(flow.monitor().operators()[3].errors, 3);
    }
    let fault = Flow::from_iter("numbers", 0..3).batch(0).named("pairs").next().unwrap().unwrap_err();
    assert_eq!(fault.to_string(), "pairs: a batch must have at least one item");
}

proptest! {
    #[test]
    fn stopping_inside_a_graph_does_not_change_its_items(
        joined in joined(),
        items in prop::collection::vec(-20..20_i64, 0..30),
        steps in steps(),
        stops in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 1..20),
    ) {
        let whole: Vec<i64> = graph(joined, &items, &steps).into_iter().collect::<Result<_, _>>().unwrap();
        let mut flow = graph(joined, &items, &steps);
        let mut found = Vec::new();
        for stop in stops.iter().cycle() {
            let known = flow.monitor().operators();
            let before = known.iter().map(|status| status.items).collect::<Vec<_>>();
            let place = stop.map(|stop| stop.index(known.len()));
            let stepped = match place {
                Some(place) => flow.step_to(&known[place].name),
                None => flow.step(),
            };
            let stepped = stepped.unwrap();
            match stepped {
                Stepped::Item(item) => found.push(item),
                Stepped::End => break,
                Stepped::Stopped => {
                    let name = &known[place.unwrap()].name;
                    let made = |place: usize| flow.monitor().operators()[place].items > before[place];
                    prop_assert!((0..known.len()).filter(|place| known[*place].name == *name).any(made));
                }
                Stepped::Waiting => {}
            }
        }
        prop_assert_eq!(found, whole);
    }
}

#[test]
fn stopping_keeps_produced_items_and_shows_which_operator_holds_them() {
    let mut flow = Flow::from_iter("numbers", 0..9).batch(2).shuffle(3, 1);
    assert_eq!(flow.step_to("numbers").unwrap(), Stepped::Stopped);
    assert_eq!(flow.step_to("numbers").unwrap(), Stepped::Stopped);
    let held = |held: &[(&str, usize)]| {
        held.iter().map(|(name, items)| ((*name).to_owned(), *items)).collect::<Vec<_>>()
    };
    assert_eq!(flow.held().unwrap(), held(&[("batch(2)", 1), ("numbers", 1)]));
    assert_eq!(flow.step_to("batch(2)").unwrap(), Stepped::Stopped);
    assert_eq!(flow.step_to("batch(2)").unwrap(), Stepped::Stopped);
    assert_eq!(flow.held().unwrap(), held(&[("shuffle(3)", 1), ("batch(2)", 1)]));
    assert_eq!(flow.next().unwrap().unwrap().len(), 2);
    assert_eq!(flow.held().unwrap(), held(&[("shuffle(3)", 2)]));
}

#[test]
fn stopping_at_an_error_keeps_the_error() {
    let odd = |number: u32| if number % 2 == 1 { Err("it is odd") } else { Ok(number) };
    let mut flow = Flow::from_iter("numbers", 1..4).try_for_each(odd).named("halve").batch(1);
    assert_eq!(flow.step_to("halve").unwrap(), Stepped::Stopped);
    assert_eq!(flow.step().unwrap_err().to_string(), "halve failed at item 0: it is odd");
    assert_eq!(flow.step_to("batch(1)").unwrap(), Stepped::Stopped);
    assert_eq!(flow.step_to("batch(1)").unwrap(), Stepped::Item(vec![2]));
    assert_eq!(flow.step_to("halve").unwrap(), Stepped::Stopped);
    assert!(flow.step().is_err());
    assert_eq!(flow.step_to("halve").unwrap(), Stepped::End);
}

#[test]
fn stopping_at_missing_or_remote_operators_is_refused() {
    let mut flow = Flow::from_iter("numbers", 0..9).batch(2);
    let error = flow.step_to("double").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "the graph has no operator `double`; it has `numbers`, `batch(2)`");
    let mut serial = ParFlow::from_range(&Executor::Serial, 4, 2).gather_sync();
    assert_eq!(serial.step_to("range").unwrap(), Stepped::Stopped);
    assert_eq!(serial.step_to("none").unwrap_err().kind(), ErrorKind::Invalid);
    let mut threads = ParFlow::from_range(&Executor::Threads, 4, 2).gather_sync();
    assert_eq!(threads.next().unwrap().unwrap(), 0);
    assert_eq!(threads.step_to("range").unwrap(), Stepped::Item(2));
}

#[test]
fn a_monitor_renders_as_json() {
    let late = Flow::from_pull("a \"table\"\n\\", Silent);
    let mut flow = ParFlow::from_items(&Executor::Serial, [1, 2], 2).gather_sync();
    flow.next().unwrap().unwrap();
    let mut joined = Flow::union([flow, late.timeout(Duration::from_hours(1))], Order::Ready);
    joined.step().unwrap();
    joined.step().unwrap();
    let actual = joined.monitor().to_json();
    let lines: Vec<&str> = actual.lines().collect();
    assert_eq!(
        lines[1],
        r#"{"name":"items","inputs":[],"shards":2,"items":2,"bytes":null,"queued":null,"dropped":null,"errors":0,"waits_s":null},"#
    );
    let waiting = r#"{"name":"a \"table\"\u000a\\","inputs":[],"shards":null,"items":0,"bytes":null,"queued":null,"dropped":null,"errors":0,"waits_s":0."#;
    assert!(lines[3].starts_with(waiting), "{actual}");
    assert_eq!((lines.len(), lines[0], lines[6]), (7, "[", "]"));
}

/// An error reaches one copy only, and the error of a dropped shard reaches nobody.
#[test]
fn errors_are_not_queued() {
    let odd = |number: i64| if number % 2 == 1 { Ok(number) } else { Err("even") };
    let failing = Flow::from_iter("numbers", 0..3).try_for_each(odd);
    let [mut one, mut other] = failing.duplicate(1);
    for _ in 0..2 {
        for copy in [&mut one, &mut other] {
            copy.step().ok();
        }
    }
    let queued = |flow: &Flow<i64>| flow.monitor().operators().last().and_then(|copy| copy.queued);
    assert_eq!([queued(&one), queued(&other)], [Some(0); 2]);

    let shards =
        ParFlow::from_items(&Executor::Serial, 0..4, 2).on_each(move |flow, _| flow.try_for_each(odd));
    let mut rest = shards.on_failure(OnFailure::DropShard).gather_async(Async::default());
    assert_eq!(rest.next().unwrap().unwrap(), 1);
    assert_eq!(queued(&rest), Some(0));
}

#[test]
fn a_monitor_shows_bytes_and_queue_lengths() {
    let words = ParFlow::from_items(&Executor::Serial, ["a", "bcd", "ef", "g"], 2);
    let words = words.on_each(|words, _| words.measured(|word| word.len()));
    let mut rounds = words.gather_sync();
    assert_eq!(rounds.next().unwrap().unwrap(), "a");
    let of = |name: &str, flow: &Flow<&str>| {
        let operators = flow.monitor().operators();
        let found = operators.iter().find(|one| one.name.starts_with(name)).unwrap();
        (found.items, found.bytes, found.queued)
    };
    // Both shards have produced their items, and one item was returned.
    assert_eq!(of("items", &rounds), (2, Some(4), None));
    assert_eq!(of("gather_sync", &rounds), (1, None, Some(1)));

    let [mut ahead, behind] = Flow::from_iter("numbers", ["x", "y", "z"]).duplicate(3);
    for _ in 0..2 {
        ahead.next().unwrap().unwrap();
    }
    assert_eq!((of("copy 0", &ahead).2, of("copy 1", &behind).2), (Some(0), Some(2)));
}
