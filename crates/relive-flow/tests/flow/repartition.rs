//! Items that are distributed to other shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use relive_flow::{Async, ErrorKind, Executor, Flow, OnFailure, ParFlow, Resubmit, Source};

const EXECUTORS: [Executor; 2] = [Executor::Serial, Executor::Threads];

const AHEAD: Async = Async { depth: 3, resubmit: Resubmit::Before };

/// Returns shards with the given numbers of items; an item consists of its shard's number and its own.
fn counted(executor: &Executor, lengths: Vec<u32>) -> ParFlow<(u32, u32)> {
    let shards = u32::try_from(lengths.len()).unwrap();
    ParFlow::from_flows(
        executor,
        shards,
        |_| (),
        move |shard| {
            let shard = shard.number();
            Flow::from_iter("items", (0..lengths[shard as usize]).map(move |item| (shard, item)))
        },
    )
}

fn all<T: 'static>(flow: Flow<T>) -> Vec<T> {
    flow.into_iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn one_shard_is_repartitioned_round_robin() {
    for executor in &EXECUTORS {
        let dealt = ParFlow::from_items(executor, 0..7, 1).repartition(3);
        assert_eq!(dealt.num_shards(), 3);
        assert_eq!(
            all(dealt.gather_sync().zip_with_source()),
            [0, 1, 2, 3, 4, 5, 6].map(|item| (Source(item % 3), item))
        );
    }
    let joined = counted(&Executor::Serial, vec![2, 4]).repartition(1).gather_sync();
    assert_eq!(all(joined), [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (1, 3)]);
}

#[test]
fn operators_around_repartition_run_in_shards_and_are_shown_once() {
    for executor in &EXECUTORS {
        let tens = counted(executor, vec![3, 5]).for_each(|(_, item)| item * 10);
        let mut flow = tens.repartition(2).batch(2).repartition(3).gather_async(AHEAD);
        while flow.next().transpose().unwrap().is_some() {}
        let actual: Vec<_> = flow
            .monitor()
            .operators()
            .into_iter()
            .map(|status| (status.name, status.shards, status.items))
            .collect();
        let expected = [
            ("items", Some(2), 8),
            ("for_each", Some(2), 8),
            ("repartition(2)", Some(2), 8),
            ("batch(2)", Some(2), 5),
            ("repartition(3)", Some(3), 5),
            ("gather_async of 3 shards", None, 5),
        ];
        assert_eq!(actual, expected.map(|(name, shards, items)| (name.to_owned(), shards, items)));
    }
}

#[test]
fn errors_replace_their_item_and_name_its_origin() {
    for executor in &EXECUTORS {
        let odd = |number: u64| if number == 4 { Err("no fours") } else { Ok(number) };
        let checked = ParFlow::from_range(executor, 6, 2).on_each(move |flow, _| flow.try_for_each(odd));
        let flows = checked.repartition(2).into_flows(1);
        let text = flows.into_iter().map(|flow| {
            let mut text: Vec<String> = flow
                .into_iter()
                .map(|item| item.map_or_else(|error| error.to_string(), |item| item.to_string()))
                .collect();
            text.sort();
            text
        });
        let expected =
            [vec!["0", "2", "3", "5"], vec!["1", "for_each failed at item 1 of shard 1: no fours"]];
        assert_eq!(text.collect::<Vec<_>>(), expected);
        // The other shard is endless, so that it is still running when this one fails.
        let endless = ParFlow::from_states(executor, 2, |shard| shard, |shard| Some(*shard));
        let failing = endless
            .on_each(|flow, _| flow.try_for_each(|shard| if shard == 1 { Err("failed") } else { Ok(shard) }));
        let left = failing.on_failure(OnFailure::DropShard).repartition(2).gather_async(AHEAD).take(5_000);
        assert!(all(left).into_iter().all(|shard| shard == 0));
    }
}

#[test]
fn repartitioning_buffers_at_most_the_limit_and_nothing_for_ended_shards() {
    for executor in &EXECUTORS {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let endless =
            ParFlow::from_states(executor, 1, |_| (), move |()| Some(counter.fetch_add(1, Ordering::SeqCst)));
        let mut flows = endless.repartition(2).into_flows(1);
        let other = flows.pop().unwrap();
        // Of the first 2,001 items, 1,000 wait for shard 1.
        for item in 0..1_001 {
            assert_eq!(flows[0].next().unwrap().unwrap(), 2 * item);
        }
        let error = flows[0].next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock);
        assert_eq!(
            error.to_string(),
            "repartition(2): 1000 items wait for new shard 1, which nothing pulls, while new shard 0 waits for \
             its next item; pull both evenly, or gather them with gather_async"
        );
        assert!(made.load(Ordering::SeqCst) <= 2_010, "{made:?}");
        drop(other);
        // Another error may already have been produced.
        let mut continuing = std::iter::from_fn(|| flows[0].next()).filter_map(Result::ok);
        assert!((1_001..5_000).all(|item| continuing.next() == Some(2 * item)));
    }
}

#[test]
fn gather_async_tolerates_shards_with_very_uneven_demand() {
    for executor in &EXECUTORS {
        // New shard 1 only has odd items, and only one of them is kept.
        let kept = |number: &u64| number.is_multiple_of(2) || *number == 20_001;
        let dealt = || ParFlow::from_range(executor, 20_003, 1).repartition(2).filter(kept);
        assert_eq!(all(dealt().gather_async(AHEAD)).len(), 10_003);
        let error = dealt().gather_sync().into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Deadlock);
    }
}

#[test]
fn unselected_or_ended_shards_do_not_block_others() {
    for executor in &EXECUTORS {
        let selected =
            ParFlow::from_range(executor, 10_000, 2).repartition(4).select_shards(&[1]).gather_sync();
        assert_eq!(all(selected).len(), 2_500);
        let short = ParFlow::from_range(executor, 10_000, 2).repartition(2).on_each(|flow, shard| {
            let first = if shard.number() == 0 { 3 } else { usize::MAX };
            flow.take(first)
        });
        assert_eq!(all(short.gather_sync()).len(), 5_003);
    }
}

#[test]
fn repartitioning_into_zero_shards_is_refused() {
    let error = ParFlow::from_range(&Executor::Serial, 4, 2)
        .repartition(0)
        .gather_sync()
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Invalid, "repartition(0): the number of new shards must be at least 1".to_owned())
    );
}

proptest! {
    #[test]
    fn item_j_of_each_old_shard_goes_to_new_shard_j_mod_n_in_order(
        lengths in prop::collection::vec(0..40_u32, 0..5),
        new in 1..5_u32,
        is_async in any::<bool>(),
    ) {
        for executor in &EXECUTORS {
            let dealt = counted(executor, lengths.clone()).repartition(new);
            let flow = if is_async { dealt.gather_async(AHEAD) } else { dealt.gather_sync() };
            let found = all(flow.zip_with_source());
            prop_assert_eq!(found.len(), lengths.iter().sum::<u32>() as usize);
            for to in 0..new {
                for (old, length) in (0..).zip(&lengths) {
                    let own = found.iter().filter(|(source, (shard, _))| (source.0, *shard) == (to, old));
                    let own: Vec<u32> = own.map(|(_, (_, item))| *item).collect();
                    prop_assert_eq!(own, (0..*length).filter(|item| item % new == to).collect::<Vec<_>>());
                }
            }
        }
    }
}
