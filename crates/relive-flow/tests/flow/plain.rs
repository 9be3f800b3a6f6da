//! Random chains of operators, compared with the same chains of Rust's iterators.

use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use relive_flow::{Executor, Flow, ParFlow, Polled, Pull, Ratio, Tagged, Turn};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Add(i64),
    Keep(i64),
    Repeat(usize),
    Take(usize),
    Sums(usize),
    Windows(usize, usize),
    /// A window by time that the end of the items ends.
    WindowByTime,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (-5..5_i64).prop_map(Step::Add),
        (1..4_i64).prop_map(Step::Keep),
        (0..3_usize).prop_map(Step::Repeat),
        (0..40_usize).prop_map(Step::Take),
        (1..5_usize).prop_map(Step::Sums),
        (1..5_usize, 1..6_usize).prop_map(|(size, step)| Step::Windows(size, step)),
        Just(Step::WindowByTime),
    ];
    prop::collection::vec(step, 0..8)
}

pub(crate) fn flowing(flow: Flow<i64>, step: &Step) -> Flow<i64> {
    match *step {
        Step::Add(more) => flow.for_each(move |item| item + more),
        Step::Keep(divisor) => flow.filter(move |item| item % divisor == 0),
        Step::Repeat(times) => flow.combine(move |item| vec![item; times]),
        Step::Take(count) => flow.take(count),
        Step::Sums(size) => flow.batch(size).for_each(|items| items.iter().sum()),
        Step::Windows(size, step) => flow.window(size, step).for_each(|items| items.iter().sum()),
        Step::WindowByTime => {
            flow.window_by_time(Duration::from_hours(1)).for_each(|items| items.iter().sum())
        }
    }
}

fn plain(items: Vec<i64>, step: &Step) -> Vec<i64> {
    match *step {
        Step::Add(more) => items.iter().map(|item| item + more).collect(),
        Step::Keep(divisor) => items.into_iter().filter(|item| item % divisor == 0).collect(),
        Step::Repeat(times) => items.iter().flat_map(|item| vec![*item; times]).collect(),
        Step::Take(count) => items.into_iter().take(count).collect(),
        Step::Sums(size) => items.chunks(size).map(|items| items.iter().sum()).collect(),
        Step::Windows(size, step) => {
            items.windows(size).step_by(step).map(|items| items.iter().sum()).collect()
        }
        Step::WindowByTime if items.is_empty() => items,
        Step::WindowByTime => vec![items.iter().sum()],
    }
}

/// Returns an item or is pending, as a list determines.
struct Slow(std::vec::IntoIter<bool>, char);

impl Pull<char> for Slow {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<char> {
        match self.0.next() {
            Some(true) => Poll::Ready(Some(Ok(Tagged { item: self.1, source: None }))),
            Some(false) => {
                turn.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}

proptest! {
    #[test]
    fn a_ratio_stays_within_its_tolerance(
        (inserts, samples) in (prop::collection::vec(any::<bool>(), 0..80), prop::collection::vec(any::<bool>(), 0..80)),
        samples_per_insert in prop::sample::select(vec![0.1, 0.5, 1.0, 1.5, 4.0]),
        more in 0..5_u8,
        min_inserted in 0..10_u64,
    ) {
        let tolerance = f64::max(samples_per_insert, 1.0) + f64::from(more);
        let of = |ready: &Vec<bool>, item| Flow::from_pull("slow", Slow(ready.clone().into_iter(), item));
        let ratio = Ratio { samples_per_insert, min_inserted, tolerance };
        let joined = Flow::in_ratio(of(&inserts, 'i'), of(&samples, 's'), ratio);
        let (mut inserted, mut sampled) = (0_u32, 0_u32);
        let min = u32::try_from(min_inserted).unwrap();
        for item in joined {
            if item.unwrap() == 'i' { inserted += 1 } else { sampled += 1 }
            let due = (f64::from(inserted) - f64::from(min)) * samples_per_insert - f64::from(sampled);
            prop_assert!(sampled == 0 || inserted >= min);
            prop_assert!(inserted < min || due.abs() <= tolerance, "{inserted} inserted, {sampled} sampled");
        }
        // The flow only ends if neither side can advance.
        let left = |ready: &Vec<bool>, count: u32| ready.iter().filter(|ready| **ready).count() > count as usize;
        let due = (f64::from(inserted) - f64::from(min)) * samples_per_insert - f64::from(sampled);
        prop_assert!(!left(&inserts, inserted) || (inserted >= min && due + samples_per_insert > tolerance));
        prop_assert!(!left(&samples, sampled) || inserted < min || due - 1.0 < -tolerance);
    }

    #[test]
    fn a_chain_of_operators_matches_std_iterators(
        items in prop::collection::vec(-20..20_i64, 0..60),
        steps in steps(),
    ) {
        let flow = steps.iter().fold(Flow::from_iter("items", items.clone()), flowing);
        let expected = steps.iter().fold(items, plain);
        prop_assert_eq!(flow.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn shards_give_the_same_items_with_any_executor(
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

#[test]
fn sizes_beyond_all_memory_need_only_the_memory_of_the_items() {
    let five = || Flow::from_iter("numbers", 0..5);
    let mut shuffled: Vec<i32> = five().shuffle(usize::MAX, 1).into_iter().collect::<Result<_, _>>().unwrap();
    shuffled.sort_unstable();
    assert_eq!(shuffled, [0, 1, 2, 3, 4]);
    let batches: Vec<Vec<i32>> = five().batch(usize::MAX).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, [[0, 1, 2, 3, 4]]);
    assert!(five().window(usize::MAX, 1).next().is_none());
}
