//! The sources of items in graphs that select and merge shards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use relive_flow::{
    Async, ErrorKind, Executor, Flow, Order, ParFlow, Polled, Pull, Ratio, Source, Tagged, Turn, Weight,
};

use crate::faults::Silent;

fn shards(names: [&'static str; 3]) -> ParFlow<&'static str> {
    let flow = move |shard: &relive_flow::Shard<()>| {
        let name = names[shard.number() as usize];
        Flow::from_iter(name, [name; 2])
    };
    ParFlow::from_flows(&Executor::Serial, 3, |_| (), flow)
}

fn sourced(flow: Flow<&'static str>) -> Vec<(u32, &'static str)> {
    flow.zip_with_source()
        .into_iter()
        .map(Result::unwrap)
        .map(|(Source(number), item)| (number, item))
        .collect()
}

#[test]
fn selected_shards_are_numbered_from_0() {
    let selected = shards(["a", "b", "c"]).select_shards(&[2, 1]);
    assert_eq!(sourced(selected.gather_sync()), [(0, "b"), (1, "c"), (0, "b"), (1, "c")]);
    let again = shards(["a", "b", "c"]).select_shards(&[1, 2]).select_shards(&[1, 7]);
    assert_eq!(sourced(again.gather_sync()), [(0, "c"), (0, "c")]);
}

#[test]
fn merged_flows_have_different_sources() {
    let [one, other] = [["a", "b", "c"], ["x", "y", "z"]].map(|names| shards(names).gather_sync());
    let merged =
        sourced(Flow::union([one, Flow::from_iter("none", []), other.prefetch(1)], Order::RoundRobin));
    assert_eq!(merged[..6], [(0, "a"), (3, "x"), (1, "b"), (4, "y"), (2, "c"), (5, "z")]);

    let [acted, learnt] = [["a", "b", "c"], ["x", "y", "z"]].map(|names| shards(names).gather_sync());
    let mut found = sourced(Flow::in_ratio(acted, learnt.batch(1).flatten(), Ratio::exact(1.0, 1)));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [(0, "a"), (1, "b"), (2, "c"), (3, "x"), (4, "y"), (5, "z")]);
}

#[test]
fn copies_keep_the_number_of_sources() {
    let [copy, other] = shards(["a", "b", "c"]).gather_async(Async::default()).duplicate(9);
    let merged = sourced(Flow::union([copy, other], Order::RoundRobin));
    assert!(merged.chunks(2).all(|pair| pair[0].1 == pair[1].1 && pair[0].0 + 3 == pair[1].0), "{merged:?}");
}

#[test]
fn a_failed_shard_does_not_cost_a_round_its_other_items() {
    let halves = ParFlow::from_items(&Executor::Serial, 0..6_i64, 2);
    let shards = halves.on_each(|flow, _| {
        flow.try_for_each(|number| if number == 2 { Err("two is bad") } else { Ok(number) })
    });
    let rounds: Vec<_> = shards.batch_across_shards().into_iter().map(|round| round.map_err(drop)).collect();
    assert_eq!(rounds, [Ok(vec![0, 1]), Err(()), Ok(vec![3]), Ok(vec![4, 5])]);
}

#[test]
fn only_selected_errors_are_retried() {
    let words = Flow::from_iter("words", ["1", "x", "2", "worst", "3"]).try_for_each(str::parse::<u32>);
    let flow = words.retry_if(9, |error| !error.to_string().contains("item 3"));
    let found: Vec<_> = flow.into_iter().map(|number| number.map_err(drop)).collect();
    assert_eq!(found, [Ok(1), Ok(2), Err(()), Ok(3)]);
}

/// A copy that is ahead ends its turn, because the union itself pulls the other copy.
#[test]
fn a_union_of_copies_that_advance_unevenly_goes_on() {
    for order in [Order::RoundRobin, Order::weighted([Weight::Times(1.0), Weight::Times(1.0)])] {
        let [pairs, singles] = Flow::from_iter("numbers", 0..6).duplicate(1);
        let merged =
            Flow::union([pairs.batch(2).for_each(|pair| pair.len() * 100 + pair[0]), singles], order);
        let found: Vec<usize> = merged.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, [0, 200, 1, 2, 202, 3, 4, 204, 5]);
    }
}

/// An operator may replace the stream of a shard, as Python's `transform` does.
#[test]
fn the_items_of_a_new_stream_belong_to_the_shard() {
    for executor in [Executor::Serial, Executor::Threads] {
        let replaced = ParFlow::from_items(&executor, [1, 2, 3], 3)
            .on_each(|flow, _| Flow::from_iter("again", flow.into_iter().flatten()))
            .select_shards(&[1, 2])
            .for_each(|number| number * 10);
        let found: Vec<_> =
            replaced.gather_sync().zip_with_source().into_iter().map(Result::unwrap).collect();
        assert_eq!(found, [(Source(0), 20), (Source(1), 30)]);
    }
}

#[test]
fn a_union_runs_each_shard_where_it_ran() {
    let threads_of = |executor: &Executor| -> ParFlow<ThreadId> {
        ParFlow::from_items(executor, [(); 2], 2).for_each(|()| thread::current().id())
    };
    let [serial, threads] = [Executor::Serial, Executor::Threads];
    let own = thread::current().id();
    for (first, second) in [(&serial, &threads), (&threads, &serial)] {
        let union = threads_of(first).union(threads_of(second)).gather_sync();
        let found: Vec<bool> = union.into_iter().map(|id| id.unwrap() == own).collect();
        let expected = [first, first, second, second].map(|executor| *executor == serial);
        assert_eq!(found, expected);
    }
}

/// A source that reports that it has no item until its neighbors have yielded enough items.
struct Replay {
    stored: Arc<AtomicU32>,
    at_least: u32,
    asked: Arc<AtomicU32>,
}

impl Pull<String> for Replay {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let stored = self.stored.load(Ordering::Relaxed);
        if stored < self.at_least {
            turn.not_ready_until(Instant::now() + Duration::from_millis(1));
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Tagged { item: format!("replayed {}", stored - 1), source: None })))
    }
}

/// Returns a flow that stores its items, and a flow that replays the last one as soon as five are stored.
fn storing_and_replaying() -> (Flow<String>, Flow<String>, Arc<AtomicU32>) {
    let [stored, asked] = [(); 2].map(|()| Arc::<AtomicU32>::default());
    let replay = Replay { stored: Arc::clone(&stored), at_least: 5, asked: Arc::clone(&asked) };
    let store = Flow::from_iter("steps", 0..).for_each(move |step: u32| {
        stored.store(step + 1, Ordering::Relaxed);
        format!("stored {step}")
    });
    (store, Flow::from_pull("replay", replay), asked)
}

fn taken(flow: Flow<String>, count: usize) -> Vec<String> {
    flow.take(count).into_iter().map(Result::unwrap).collect()
}

const FIRST: [&str; 5] = ["stored 0", "stored 1", "stored 2", "stored 3", "stored 4"];

#[test]
fn a_source_that_reports_that_it_has_no_item_ends_its_turn() {
    let weighted = Order::weighted([1.0, 2.0].map(Weight::Times));
    let next = ["replayed 4", "stored 5", "replayed 5", "stored 6"];
    let twice = ["replayed 4", "replayed 4", "stored 5", "replayed 5", "replayed 5"];
    for (order, expected) in [(Order::RoundRobin, &next[..]), (weighted, &twice[..])] {
        let same: fn(Flow<String>) -> Flow<String> = |flow| flow;
        let changed: [fn(Flow<String>) -> Flow<String>; 7] = [
            same,
            |flow| flow.for_each(|item| item).filter(|item| !item.is_empty()),
            |flow| flow.batch(1).flatten().shuffle(1, 0).window(1, 1).flatten(),
            |flow| flow.timeout(Duration::from_hours(1)).retry(1),
            |flow| flow.duplicate::<1>(1).into_iter().next().unwrap(),
            |flow| Flow::union([flow], Order::RoundRobin),
            |flow| {
                let flow = Mutex::new(Some(flow));
                let shards = ParFlow::from_flows(
                    &Executor::Serial,
                    1,
                    |_| (),
                    move |_| flow.lock().unwrap().take().unwrap(),
                );
                shards.gather_sync()
            },
        ];
        for change in changed {
            let (store, replay, asked) = storing_and_replaying();
            let union = Flow::union([store, change(replay)], order.clone());
            assert_eq!(taken(union, 5 + expected.len()), [&FIRST[..], expected].concat());
            // Once in each of four turns, and for each item; a copy pulls twice when there is none.
            assert!(asked.load(Ordering::Relaxed) <= 2 * 4 + 4, "{asked:?}");
        }
    }
}

#[test]
fn an_inner_union_passes_over_such_a_source_while_another_flow_waits() {
    let (store, replay, _) = storing_and_replaying();
    let inner = Flow::union([store, replay], Order::weighted([1.0, 2.0].map(Weight::Times)));
    let silent = Flow::from_pull("silent", Silent).for_each(|number| number.to_string());
    let outer = Flow::union([silent, inner], Order::Ready);
    assert_eq!(taken(outer, 7), [&FIRST[..], &["replayed 4", "replayed 4"]].concat());
}

/// A wait keeps the turn, although another part of the flow has reported that it has no item.
#[test]
fn a_flow_that_also_waits_keeps_its_turn() {
    let (_, replay, _) = storing_and_replaying();
    let silent = Flow::from_pull("silent", Silent).for_each(|number| number.to_string());
    let waits =
        Flow::in_ratio(replay, silent, Ratio { samples_per_insert: 1.0, min_inserted: 0, tolerance: 2.0 });
    let steps = Flow::from_iter("steps", 0..).for_each(|step: u32| step.to_string());
    let mut union = Flow::union([steps, waits], Order::RoundRobin);
    assert_eq!(union.next().unwrap().unwrap(), "0");
    let error = union.next_within(Duration::from_millis(20)).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn a_source_that_never_has_an_item_is_waited_for_without_a_deadlock() {
    let (_, replay, asked) = storing_and_replaying();
    let mut union = Flow::union([Flow::from_iter("step", ["0".to_owned()]), replay], Order::RoundRobin);
    assert_eq!(union.next().unwrap().unwrap(), "0");
    while asked.load(Ordering::Relaxed) < 5 {
        let error = union.next_for(Duration::from_millis(20)).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
}
