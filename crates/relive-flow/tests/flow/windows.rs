//! Windows that end with a time.

use std::time::Duration;

use relive_flow::{ErrorKind, Executor, Flow, Order, ParFlow, Source};

use crate::faults::Silent;

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_hours(1);

/// Two items, and then none, without an end.
fn two_items() -> Flow<u32> {
    Flow::union([Flow::from_iter("numbers", 0..2), Flow::from_pull("table", Silent)], Order::Ready)
}

#[test]
fn a_list_is_returned_when_its_time_is_over() {
    for mut windows in [two_items().window_by_time(SHORT), two_items().window_by_time(SHORT).prefetch(1)] {
        let mut items = Vec::new();
        // On a busy machine, the time may be over between the two items.
        while items.len() < 2 {
            let list = windows.next().unwrap().unwrap();
            assert!(!list.is_empty());
            items.extend(list);
        }
        assert_eq!(items, [0, 1]);
    }
}

#[test]
fn the_time_of_a_list_begins_with_its_first_item() {
    let mut none = Flow::from_pull("table", Silent).window_by_time(SHORT);
    assert_eq!(none.next_within(5 * SHORT).unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    let mut patient = two_items().window_by_time(LONG);
    assert_eq!(patient.next_within(SHORT).unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    let items: Vec<u64> = patient.monitor().operators().iter().map(|operator| operator.items).collect();
    assert_eq!(items, [2, 0, 2, 0], "numbers, table, union, window");
    assert_eq!(
        Flow::from_iter("numbers", 0..2).window_by_time(Duration::MAX).next().unwrap().unwrap(),
        [0, 1]
    );
}

#[test]
fn an_error_does_not_end_a_list() {
    let numbers = Flow::from_iter("words", ["0", "x", "2"]).try_for_each(str::parse::<u32>);
    let mut windows = numbers.window_by_time(LONG);
    assert_eq!(windows.next().unwrap().unwrap_err().operator(), Some("for_each"));
    assert_eq!(windows.next().unwrap().unwrap(), [0, 2]);
    assert!(windows.next().is_none());
}

#[test]
fn a_list_has_the_source_of_its_items() {
    let shards = || ParFlow::from_range(&Executor::Serial, 4, 2);
    let lists = shards().on_each(|flow, _| flow.window_by_time(LONG)).gather_sync().zip_with_source();
    let lists: Vec<_> = lists.into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(lists, [(Source(0), vec![0, 1]), (Source(1), vec![2, 3])]);
    let mut mixed = shards().gather_sync().window_by_time(LONG).zip_with_source();
    assert_eq!(mixed.next().unwrap().unwrap_err().kind(), ErrorKind::Operator);
}
