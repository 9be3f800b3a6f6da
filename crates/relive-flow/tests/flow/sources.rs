//! The sources of items in graphs that select and merge shards.

use std::thread::{self, ThreadId};

use relive_flow::{Async, Executor, Flow, Order, ParFlow, Ratio, Source, Weight};

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
