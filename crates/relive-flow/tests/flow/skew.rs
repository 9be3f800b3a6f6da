//! Sixty-four shards or copies, one of them a hundred times slower than the others: none starves, and the number of
//! kept items stays within its bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use relive_flow::{
    Async, Executor, Flow, Lead, Order, ParFlow, Polled, Pull, Ratio, Resubmit, Stepped, Tagged, Turn, Weight,
};

const SHARDS: usize = 64;

/// How much slower the first one is.
const SLOWNESS: usize = 100;

/// The number of items that currently exist.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// An item; its clones count as one.
struct Counted {
    maker: usize,
    alive: Alive,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Item = Arc<Counted>;

/// A source that has an item at every `every`-th pull.
struct Makes {
    maker: usize,
    every: usize,
    pulls: usize,
    alive: Alive,
}

impl Pull<Item> for Makes {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Item> {
        self.pulls += 1;
        if !self.pulls.is_multiple_of(self.every) {
            turn.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.alive.0.fetch_add(1, Ordering::SeqCst);
        let item = Arc::new(Counted { maker: self.maker, alive: self.alive.clone() });
        Poll::Ready(Some(Ok(Tagged { item, source: None })))
    }
}

/// Returns the items of the given maker; maker 0 is slow.
fn makes(maker: usize, alive: &Alive) -> Flow<Item> {
    let every = if maker == 0 { SLOWNESS } else { 1 };
    Flow::from_pull("makes", Makes { maker, every, pulls: 0, alive: alive.clone() })
}

fn shards(executor: &Executor, alive: &Alive) -> ParFlow<Item> {
    let alive = alive.clone();
    ParFlow::from_flows(executor, 64, |_| (), move |shard| makes(shard.number() as usize, &alive))
}

/// Pulls the given number of items, and returns how many of them each maker has produced. At most `kept` items may
/// exist in addition to the returned one.
fn counts(mut flow: Flow<Item>, items: usize, alive: &Alive, kept: usize) -> Vec<usize> {
    let mut counts = vec![0; SHARDS];
    for _ in 0..items {
        let item = flow.next().unwrap().unwrap();
        assert!(alive.count() <= kept + 1, "{} items", alive.count());
        counts[item.maker] += 1;
    }
    counts
}

/// Checks that the slow maker produces a hundredth of the items of each other maker, and that the others produce
/// equally many.
fn expect_fair(counts: &[usize]) {
    let (least, most) = (counts[1..].iter().min().unwrap(), counts[1..].iter().max().unwrap());
    assert!(most - least <= 1, "{counts:?}");
    assert!(counts[0].abs_diff(most / SLOWNESS) <= 1, "{counts:?}");
}

#[test]
fn joined_flows_are_read_fairly() {
    let alive = Alive::default();
    let flows = || (0..SHARDS).map(|maker| makes(maker, &alive));
    expect_fair(&counts(Flow::union(flows(), Order::Ready), 100_000, &alive, 0));
    let weights = (0..SHARDS).map(|_| Weight::UpTo(1));
    expect_fair(&counts(Flow::union(flows(), Order::weighted(weights)), 100_000, &alive, 0));
    // In turn, all makers wait for the slow one.
    let even = counts(Flow::union(flows(), Order::RoundRobin), 64_000, &alive, 0);
    assert_eq!(even, [1_000; SHARDS]);
}

#[test]
fn shards_are_read_fairly_and_prefetch_at_most_their_depth() {
    for resubmit in [Resubmit::Before, Resubmit::After] {
        let alive = Alive::default();
        let mode = Async { depth: 3, resubmit };
        expect_fair(&counts(shards(&Executor::Serial, &alive).gather_async(mode), 100_000, &alive, 0));
        let threads = shards(&Executor::Threads, &alive).gather_async(mode);
        let counts = counts(threads, 20_000, &alive, 3 * SHARDS);
        assert_eq!(counts.iter().sum::<usize>(), 20_000);
        assert_eq!(alive.count(), 0);
    }
}

#[test]
fn a_slow_shard_in_a_thread_is_not_starved() {
    let alive = Alive::default();
    let mut flow = shards(&Executor::Threads, &alive).gather_async(Async::default());
    let mut found = [0; SHARDS];
    // This must hold regardless of the slow maker's speed and the scheduling.
    while found.iter().any(|count| *count < 20) {
        found[flow.next().unwrap().unwrap().maker] += 1;
        assert!(alive.count() <= 2 * SHARDS);
    }
}

#[test]
fn rounds_wait_for_the_slowest_shard() {
    for executor in [Executor::Serial, Executor::Threads] {
        let alive = Alive::default();
        let even = counts(shards(&executor, &alive).gather_sync(), 6_400, &alive, SHARDS);
        assert_eq!(even, [100; SHARDS]);
    }
}

#[test]
fn copies_wait_for_the_slowest_and_buffer_at_most_the_lead() {
    const LEAD: usize = 8;
    let alive = Alive::default();
    let mut copies: [Flow<Item>; SHARDS] = makes(1, &alive).duplicate(LEAD);
    let mut taken = [0_usize; SHARDS];
    for round in 1..=20 * SLOWNESS {
        for (number, copy) in copies.iter_mut().enumerate() {
            let is_slow = number == 0;
            if is_slow && !round.is_multiple_of(SLOWNESS) {
                continue;
            }
            match copy.step().unwrap() {
                Stepped::Item(_) => taken[number] += 1,
                Stepped::Waiting => assert!(!is_slow, "the slow one is behind, and never waits"),
                other @ (Stepped::End | Stepped::Stopped) => panic!("{:?}", std::mem::discriminant(&other)),
            }
            let behind = taken.iter().min().unwrap();
            assert!(taken.iter().all(|count| count - behind <= LEAD), "{taken:?}");
            assert!(alive.count() <= LEAD, "{} items", alive.count());
        }
    }
    assert_eq!(taken[0], 20);
    assert!(taken[1..].iter().all(|count| *count == 20 + LEAD), "{taken:?}");
}

#[test]
fn copies_that_drop_the_oldest_delay_nobody_and_keep_at_most_the_lead() {
    const LEAD: usize = 8;
    let alive = Alive::default();
    let numbers = makes(1, &alive).for_each_with(|context, item| (context.item, item));
    let [mut fast, mut slow]: [Flow<(u64, Item)>; 2] = numbers.duplicate(Lead::dropping_oldest(LEAD));
    let monitor = slow.monitor();
    for round in 1..=20 * SLOWNESS {
        let (number, item) = fast.next().unwrap().unwrap();
        drop(item);
        assert_eq!(number, round as u64 - 1, "the fast copy loses nothing");
        assert!(alive.count() <= LEAD, "{} items", alive.count());
        if round.is_multiple_of(SLOWNESS) {
            let (oldest, _) = slow.next().unwrap().unwrap();
            assert_eq!(oldest, (round - LEAD) as u64, "the slow copy has the latest items");
        }
    }
    let status = monitor.operators().pop().unwrap();
    let (taken, queued) = (20, LEAD as u64 - 1);
    assert_eq!((status.items, status.queued), (taken, Some(queued)));
    assert_eq!(status.dropped, Some(20 * SLOWNESS as u64 - taken - queued));
    assert_eq!(fast.monitor().operators().pop().unwrap().dropped, Some(0));
}

#[test]
fn a_ratio_holds_for_inserts_of_shards() {
    const SAMPLES_PER_INSERT: f64 = 4.0;
    for executor in [Executor::Serial, Executor::Threads] {
        let alive = Alive::default();
        let inserts =
            shards(&executor, &alive).gather_async(Async::default()).for_each(|item| Some(item.maker));
        let samples = Flow::from_iter("samples", std::iter::repeat(None));
        let ratio = Ratio { samples_per_insert: SAMPLES_PER_INSERT, min_inserted: 100, tolerance: 8.0 };
        let mut joined = Flow::in_ratio(inserts, samples, ratio);
        let mut inserted = [0_u32; SHARDS];
        let mut sampled = 0_u32;
        for _ in 0..50_000 {
            match joined.next().unwrap().unwrap() {
                Some(maker) => inserted[maker] += 1,
                None => sampled += 1,
            }
            let total: u32 = inserted.iter().sum();
            let due = (f64::from(total) - 100.0) * SAMPLES_PER_INSERT - f64::from(sampled);
            assert!(total < 100 || due.abs() <= 8.0, "{total} inserted, {sampled} sampled");
            assert!(alive.count() <= 2 * SHARDS);
        }
        // Samples are always ready, so inserts advance at their own pace and samples never exceed the ratio.
        assert!(sampled > 39_000);
        if executor == Executor::Serial {
            assert!(inserted[1..].iter().all(|count| *count >= 155), "{inserted:?}");
            assert_eq!(inserted[0], 1, "{inserted:?}");
        }
    }
}

#[test]
fn repartitioned_shards_buffer_at_most_the_limit() {
    for executor in [Executor::Serial, Executor::Threads] {
        let alive = Alive::default();
        // New shard 0 needs a hundred items for each item that it returns.
        let dealt = shards(&executor, &alive).repartition(4).on_each(|flow, shard| {
            let size = if shard.number() == 0 { SLOWNESS } else { 1 };
            flow.batch(size)
        });
        let mut flow = dealt.gather_async(Async::default()).zip_with_source();
        let mut lists = [0; 4];
        while lists.iter().any(|count| *count < 50) {
            let (source, items) = flow.next().unwrap().unwrap();
            lists[source.0 as usize] += 1;
            drop(items);
            assert!(alive.count() <= 4 * 1_000 + 4 * SLOWNESS + 2 * SHARDS, "{} items", alive.count());
        }
    }
}
