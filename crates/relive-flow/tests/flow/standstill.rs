//! Graphs that wait for themselves: each pull returns an item, the end, or an error with the reason for the deadlock.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use relive_flow::{Async, ErrorKind, Executor, Flow, FlowError, Order, ParFlow, Weight};

/// A timeout that is far longer than it takes to detect a deadlock.
const NEVER: Duration = Duration::from_secs(60);

fn numbers() -> Flow<u32> {
    Flow::from_iter("numbers", 0..100)
}

/// Returns the result of `run`, which must end in time.
fn ends<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, is_done) = channel();
    thread::spawn(move || done.send(run()));
    is_done.recv_timeout(NEVER).expect("the graph waits for ever")
}

/// Returns the items before the first error, and that error.
fn until_error(flow: Flow<u32>) -> (Vec<u32>, Option<FlowError>) {
    ends(move || {
        let mut items = Vec::new();
        for item in flow {
            match item {
                Ok(item) => items.push(item),
                Err(error) => return (items, Some(error)),
            }
        }
        (items, None)
    })
}

fn deadlock(flow: Flow<u32>) -> (usize, String) {
    let (items, error) = until_error(flow);
    let error = error.expect("it stands still");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    (items.len(), error.to_string())
}

fn weighted(flows: [Flow<u32>; 2], weights: [f64; 2]) -> Flow<u32> {
    Flow::union(flows, Order::weighted(weights.map(Weight::Times)))
}

#[test]
fn prefetched_copies_deadlock_when_the_other_copy_is_read_more_often() {
    for depth in 1..4 {
        let [one, other] = numbers().duplicate(1);
        let (items, text) = deadlock(weighted([one.prefetch(depth), other], [1.0, 3.0]));
        assert!(items >= 4, "{items}");
        let expected = format!(
            "copy 1 of 2: this copy is ahead by the limit (1), and would wait forever for the others; pull all \
             copies, allow a larger lead, or drop the oldest items: prefetch({depth}) pulls copy 0 of 2, but nothing takes its items"
        );
        assert_eq!(text, expected);
    }
    let [one, other] = numbers().duplicate(1);
    let (items, _) = deadlock(weighted([one, other.prefetch(2)], [3.0, 1.0]));
    assert!(items < 20, "{items}");
    let [one, other] = numbers().duplicate(1);
    let (_, text) = deadlock(weighted([one.prefetch(2), other.prefetch(2)], [3.0, 1.0]));
    assert!(text.starts_with("copy 0 of 2"), "{text}");
}

#[test]
fn a_copy_abandoned_by_this_thread_is_not_waited_for() {
    let error = ends(|| {
        let [mut one, mut other] = numbers().duplicate(1);
        assert_eq!(one.next().unwrap().unwrap(), 0);
        assert_eq!(other.next().unwrap().unwrap(), 0);
        assert_eq!(other.next().unwrap().unwrap(), 1);
        let error = other.next().unwrap().unwrap_err();
        assert_eq!(one.next().unwrap().unwrap(), 1);
        error
    });
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    assert!(error.to_string().ends_with("a thread that is waiting here pulls copy 0 of 2"), "{error}");
}

#[test]
fn a_copy_whose_thread_has_ended_is_not_waited_for() {
    let [one, mut other] = numbers().duplicate(2);
    let mut one = ends(move || {
        let mut one = one;
        one.next().unwrap().unwrap();
        one
    });
    let error = (0..9).find_map(|_| other.next().unwrap().err()).expect("it stands still");
    assert!(error.to_string().ends_with("the thread that pulled copy 0 of 2 has ended"), "{error}");
    assert_eq!(one.next().unwrap().unwrap(), 1);

    let [one, mut other] = numbers().duplicate(1);
    let mut ahead = one.prefetch(3);
    assert_eq!(ahead.next().unwrap().unwrap(), 0);
    let items: Vec<_> = (0..9).map_while(|_| other.next().unwrap().ok()).collect();
    assert_eq!(items.len(), 5, "of the first, the three made ahead, and the lead");
}

#[test]
fn late_starting_threads_are_waited_for() {
    let [one, other] = Flow::from_iter("numbers", 0..4).duplicate(1);
    let monitor = other.monitor();
    let behind = thread::spawn(move || {
        while monitor.waiting().is_empty() {
            thread::yield_now();
        }
        one.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    });
    assert_eq!(until_error(other).0, [0, 1, 2, 3]);
    assert_eq!(behind.join().unwrap(), [0, 1, 2, 3]);
    let [one, other] = Flow::from_iter("numbers", 0..4).duplicate(1);
    let (items, error) = until_error(weighted([one.prefetch(1), other.prefetch(1)], [1.0, 1.0]));
    assert_eq!((items, error.is_none()), (vec![0, 0, 1, 1, 2, 2, 3, 3], true));
}

#[test]
fn a_copy_that_is_never_pulled_is_soon_reported() {
    let [mut one, _other] = numbers().duplicate(1);
    let started = Instant::now();
    assert_eq!(one.next().unwrap().unwrap(), 0);
    let error = one.next().unwrap().unwrap_err();
    assert!(error.to_string().ends_with("nothing pulls copy 1 of 2"), "{error}");
    assert!(started.elapsed() < NEVER / 2);
}

#[test]
fn a_deadlocked_graph_in_a_thread_is_reported() {
    let [one, _other] = numbers().duplicate(2);
    let (items, _) = deadlock(Flow::union([one.prefetch(1), numbers()], Order::RoundRobin));
    assert!(items >= 2, "{items}");
}

/// A graph over copies of one flow.
#[derive(Clone, Debug)]
struct Case {
    copies: Vec<(usize, u32)>,
    max_lead: usize,
    outer: usize,
    in_shards: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let copies = prop::collection::vec((0..3_usize, 1..4_u32), 2..4);
    (copies, 1..4_usize, 0..3_usize, any::<bool>()).prop_map(|(copies, max_lead, outer, in_shards)| Case {
        copies,
        max_lead,
        outer,
        in_shards,
    })
}

fn ahead(flow: Flow<u32>, depth: usize) -> Flow<u32> {
    if depth == 0 { flow } else { flow.prefetch(depth) }
}

fn graph(case: &Case) -> Flow<u32> {
    let numbers = if case.in_shards {
        ParFlow::from_items(&Executor::Threads, 0..20, 2).gather_sync()
    } else {
        Flow::from_iter("numbers", 0..20)
    };
    let copies = numbers.copies(case.copies.len(), case.max_lead).into_iter().zip(&case.copies);
    let flows: Vec<_> = copies.map(|(copy, (depth, _))| ahead(copy, *depth)).collect();
    let weights = case.copies.iter().map(|(_, times)| Weight::Times(f64::from(*times)));
    ahead(Flow::union(flows, Order::weighted(weights)), case.outer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn copies_end_deterministically_under_any_thread_schedule(case in cases()) {
        let run = || {
            let (items, error) = until_error(graph(&case));
            (items, error.map(|error| error.to_string()))
        };
        let first = run();
        prop_assert_eq!(&first, &run());
        let equal = case.copies.iter().all(|(_, times)| *times == 1);
        if equal {
            prop_assert_eq!(first.0.len(), 20 * case.copies.len());
        }
        if let Some(error) = first.1 {
            prop_assert!(error.contains("ahead by the limit"), "{}", error);
        }
    }
}

#[test]
fn shards_that_pull_copies_continue() {
    let [one, other] = Flow::from_iter("numbers", 0..40).duplicate(1);
    let flows = std::sync::Arc::new(std::sync::Mutex::new(vec![one, other]));
    let shards =
        ParFlow::from_flows(&Executor::Threads, 2, |_| (), move |_| flows.lock().unwrap().pop().unwrap());
    let (items, error) = until_error(shards.gather_async(Async::default()));
    assert_eq!((items.len(), error.is_none()), (80, true));
}
