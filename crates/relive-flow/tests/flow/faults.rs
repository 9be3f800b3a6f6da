//! Failures, and the operators that errors name.

use std::error::Error;
use std::task::Poll;
use std::time::Duration;

use relive_flow::{
    Async, ErrorKind, Executor, Flow, OnFailure, Order, ParFlow, Polled, Pull, Ratio, Source, Turn, Weight,
};

fn fault<T: std::fmt::Debug + 'static>(mut flow: Flow<T>) -> (ErrorKind, String) {
    let error = flow.next().unwrap().unwrap_err();
    (error.kind(), error.to_string())
}

fn numbers() -> Flow<u32> {
    Flow::from_iter("numbers", 0..3)
}

#[test]
fn invalid_operators_are_refused_by_the_first_pull() {
    let invalid = |text: &str| (ErrorKind::Invalid, text.to_owned());
    assert_eq!(fault(numbers().batch(0)), invalid("batch(0): a batch must have at least one item"));
    assert_eq!(fault(numbers().shuffle(0, 1)), invalid("shuffle(0): the buffer must hold at least one item"));
    for (size, step) in [(0, 1), (1, 0)] {
        let text = format!("window({size}, {step}): the size and the step of a window must be at least 1");
        assert_eq!(fault(numbers().window(size, step)), invalid(&text));
    }
    assert_eq!(
        fault(numbers().window_by_time(Duration::ZERO)),
        invalid("window_by_time(0ns): the time of a window must be above 0")
    );
    assert_eq!(
        fault(numbers().prefetch(0)),
        invalid("prefetch(0): a depth of 0 prefetches nothing; the depth must be at least 1")
    );
    let none: [Flow<u32>; 0] = [];
    assert_eq!(fault(Flow::union(none, Order::Ready)), invalid("union: a union needs at least one flow"));
    for (weights, text) in [
        (vec![Weight::Times(1.0)], "union: got 1 weights for 2 flows; give one for each"),
        (
            vec![Weight::All; 2],
            "union: all weights are `All`, so the union would never wait for an item; give one of the flows a number",
        ),
        (vec![Weight::Times(-0.5); 2], "union: a weight must be a number above 0, got -0.5"),
        (vec![Weight::UpTo(0); 2], "union: a weight must be a number above 0, got 0"),
        (vec![Weight::Times(f64::NAN); 2], "union: a weight must be a number above 0, got NaN"),
    ] {
        assert_eq!(fault(Flow::union([numbers(), numbers()], Order::weighted(weights))), invalid(text));
    }
}

#[test]
fn an_unsatisfiable_ratio_is_refused() {
    let describe = |ratio| fault(Flow::in_ratio(numbers(), numbers(), ratio)).1;
    assert_eq!(
        describe(Ratio::exact(0.0, 1)),
        "in_ratio(0): samples_per_insert must be a number above 0, got 0"
    );
    let ratio = Ratio { tolerance: 3.0, ..Ratio::exact(4.0, 1) };
    assert_eq!(describe(ratio), "in_ratio(4): the tolerance must be at least 4, got 3");
}

#[test]
fn a_failing_or_panicking_function_is_named_and_the_flow_continues() {
    for executor in [Executor::Serial, Executor::Threads] {
        let par = ParFlow::from_range(&executor, 6, 2);
        let mut flow = par.on_each(|flow, _| {
            flow.filter(|number| {
                assert!(*number != 4, "no fours");
                true
            })
        });
        flow = flow.on_each(|flow, _| {
            flow.try_for_each(|number| if number == 1 { Err("no ones") } else { Ok(number) })
        });
        let items: Vec<_> = flow.gather_sync().into_iter().collect();
        let actual: Vec<String> =
            items.iter().filter_map(|item| item.as_ref().err().map(ToString::to_string)).collect();
        assert_eq!(
            actual,
            [
                "for_each failed at item 1 of shard 0: no ones",
                "filter panicked at item 1 of shard 1: no fours"
            ]
        );
        let failed = items.iter().find_map(|item| item.as_ref().err()).unwrap();
        assert_eq!(
            (failed.operator(), failed.item_source(), failed.item()),
            (Some("for_each"), Some(Source(0)), Some(1))
        );
        assert_eq!(failed.source().unwrap().to_string(), "no ones");
        assert_eq!(items.into_iter().filter_map(Result::ok).collect::<Vec<_>>(), [0, 3, 2, 5]);
    }
}

#[test]
fn failed_shards_are_dropped_or_recreated() {
    for executor in [Executor::Serial, Executor::Threads] {
        let par = |on_failure| {
            let counted = ParFlow::from_states(
                &executor,
                2,
                |number| (number, 0),
                |(shard, count)| {
                    *count += 1;
                    Some((*shard, *count))
                },
            );
            let checked =
                counted.on_each(|flow, _| {
                    flow.try_for_each(|(shard, count)| {
                        if shard == 1 && count == 3 { Err("worn out") } else { Ok((shard, count)) }
                    })
                });
            checked.on_failure(on_failure).gather_sync()
        };
        let taken =
            |on_failure, count| par(on_failure).take(count).into_iter().collect::<Result<Vec<_>, _>>();
        assert_eq!(taken(OnFailure::DropShard, 6).unwrap(), [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (0, 4)]);
        let again = taken(OnFailure::Restart { times: 1 }, 8).unwrap();
        assert_eq!(again, [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 1), (0, 4), (1, 2)]);
        let error = taken(OnFailure::Restart { times: 1 }, 12).unwrap_err();
        assert_eq!(error.to_string(), "for_each failed at item 2 of shard 1: worn out");
    }
}

#[test]
fn a_panic_anywhere_is_an_error() {
    let mut count = 0;
    let items = std::iter::from_fn(move || {
        count += 1;
        assert!(count != 2, "a source");
        Some(count)
    });
    let mut flow = Flow::from_iter("numbers", items).prefetch(1);
    assert_eq!(flow.next().unwrap().unwrap(), 1);
    assert_eq!(flow.next().unwrap().unwrap_err().to_string(), "numbers panicked at item 1: a source");
    assert_eq!(flow.next().unwrap().unwrap(), 3);
    for executor in [Executor::Serial, Executor::Threads] {
        for on_failure in [OnFailure::ContinueShard, OnFailure::DropShard, OnFailure::Restart { times: 2 }] {
            let par = ParFlow::from_flows(&executor, 1, |_| (), |_| -> Flow<u32> { panic!("a factory") });
            let mut flow = par.on_failure(on_failure).gather_sync();
            assert_eq!(
                flow.next().unwrap().unwrap_err().to_string(),
                "shard 0 panicked at item 0: a factory"
            );
            assert!(flow.next().is_none());
        }
    }
}

#[test]
fn a_graph_that_deadlocks_reports_it() {
    let [mut one, other] = numbers().duplicate(1);
    assert_eq!(one.next().unwrap().unwrap(), 0);
    let error = one.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    assert!(error.to_string().starts_with("copy 0 of 2: this copy is ahead by the limit"), "{error}");
    let late = one.next_within(Duration::from_millis(1)).unwrap().unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Timeout);
    drop(other);
    assert_eq!(one.next().unwrap().unwrap(), 1);
}

#[test]
fn a_copy_that_waits_until_the_other_catches_up_is_no_deadlock() {
    // In one pull, the second copy catches up with the first, and then gets as far ahead itself.
    let [one, other] = Flow::from_iter("numbers", 0..8).duplicate(3);
    let repeated = other.combine(|number| vec![number; 4]).filter(|number| *number == 0);
    let joined = Flow::union([one, repeated], Order::Ready);
    let items = joined.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(items.iter().filter(|item| **item > 0).count(), 7, "{items:?}");
}

#[test]
fn the_source_is_known_for_items_from_a_shard() {
    assert_eq!(
        fault(numbers().zip_with_source()).1,
        "zip_with_source failed at item 0: the item has no single source: it comes from no shard, or from several"
    );
    let par = ParFlow::from_range(&Executor::Serial, 4, 2);
    let known = par.gather_async(Async::default()).zip_with_source();
    let known: Vec<_> = known.into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(known, [(Source(0), 0), (Source(1), 2), (Source(0), 1), (Source(1), 3)]);
    let mixed = ParFlow::from_range(&Executor::Serial, 4, 2).gather_sync().batch(2).zip_with_source();
    assert_eq!(fault(mixed).0, ErrorKind::Operator);
}

/// A stream without items that takes the waker.
pub(crate) struct Silent;

impl Pull<u32> for Silent {
    fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<u32> {
        let _never_woken = turn.waker().clone();
        Poll::Pending
    }
}

#[test]
fn a_late_item_is_a_timeout_error_and_the_next_pull_waits_again() {
    let silent = || Flow::from_pull("table", Silent).timeout(Duration::from_millis(1));
    for mut flow in [silent(), silent().prefetch(1)] {
        for _ in 0..3 {
            let error = flow.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Late);
            assert_eq!(error.to_string(), "timeout(1ms) failed at item 0: no item arrived within 1ms");
        }
    }
    let mut patient = Flow::from_pull("table", Silent).timeout(Duration::from_hours(1));
    let error = patient.next_within(Duration::from_millis(1)).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(numbers().timeout(Duration::MAX).next().unwrap().unwrap(), 0);
}

#[test]
fn errors_beyond_the_retry_limit_are_passed_on() {
    let odd = |number: u32| if number.is_multiple_of(2) { Ok(number) } else { Err("odd") };
    let two_in_a_row = Flow::from_iter("numbers", [0, 1, 3, 2, 5, 4]).try_for_each(odd).retry(1);
    let items: Vec<_> = two_in_a_row.into_iter().map(|item| item.map_err(|error| error.item())).collect();
    assert!(matches!(items[..], [Ok(0), Err(Some(2)), Ok(2), Ok(4)]), "{items:?}");
}
