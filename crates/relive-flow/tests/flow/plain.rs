//! Random chains of operators, against the same chains of Rust's own iterators.

use proptest::prelude::*;
use relive_flow::{Executor, Flow, ParFlow};

#[derive(Debug, Clone)]
enum Step {
    Add(i64),
    Keep(i64),
    Repeat(usize),
    Take(usize),
    Sums(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (-5..5_i64).prop_map(Step::Add),
        (1..4_i64).prop_map(Step::Keep),
        (0..3_usize).prop_map(Step::Repeat),
        (0..40_usize).prop_map(Step::Take),
        (1..5_usize).prop_map(Step::Sums),
    ];
    prop::collection::vec(step, 0..8)
}

fn flowing(flow: Flow<i64>, step: &Step) -> Flow<i64> {
    match *step {
        Step::Add(more) => flow.for_each(move |item| item + more),
        Step::Keep(divisor) => flow.filter(move |item| item % divisor == 0),
        Step::Repeat(times) => flow.combine(move |item| vec![item; times]),
        Step::Take(count) => flow.take(count),
        Step::Sums(size) => flow.batch(size).for_each(|items| items.iter().sum()),
    }
}

fn plain(items: Vec<i64>, step: &Step) -> Vec<i64> {
    match *step {
        Step::Add(more) => items.iter().map(|item| item + more).collect(),
        Step::Keep(divisor) => items.into_iter().filter(|item| item % divisor == 0).collect(),
        Step::Repeat(times) => items.iter().flat_map(|item| vec![*item; times]).collect(),
        Step::Take(count) => items.into_iter().take(count).collect(),
        Step::Sums(size) => items.chunks(size).map(|items| items.iter().sum()).collect(),
    }
}

proptest! {
    #[test]
    fn a_chain_gives_what_iterators_give(items in prop::collection::vec(-20..20_i64, 0..60), steps in steps()) {
        let flow = steps.iter().fold(Flow::from_iter("items", items.clone()), flowing);
        let expected = steps.iter().fold(items, plain);
        prop_assert_eq!(flow.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn shards_give_the_same_wherever_they_run(
        items in prop::collection::vec(-20..20_i64, 0..60),
        steps in steps(),
        shards in 1..5_u32,
    ) {
        let of = |executor| {
            let steps = steps.clone();
            let par = ParFlow::from_items(executor, items.clone(), shards);
            let flow = par.on_each(move |flow, _| steps.iter().fold(flow, flowing)).gather_sync();
            flow.into_iter().collect::<Result<Vec<_>, _>>().unwrap()
        };
        let here = of(&Executor::Serial);
        prop_assert_eq!(&here, &of(&Executor::Threads));
        let own = |shard: usize| items.iter().copied().skip(shard).step_by(shards as usize).collect::<Vec<_>>();
        let parts: Vec<Vec<i64>> = (0..shards as usize).map(|shard| steps.iter().fold(own(shard), plain)).collect();
        let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
        let rounds = (0..longest).flat_map(|round| parts.iter().filter_map(move |part| part.get(round).copied()));
        prop_assert_eq!(here, rounds.collect::<Vec<_>>());
    }
}
