//! Functions that process several items at a time.

use std::sync::{Arc, Barrier};

use relive_flow::{ErrorKind, Executor, Flow, Order, ParFlow, Stepped};

fn numbers(count: u64) -> Flow<u64> {
    Flow::from_iter("numbers", 0..count)
}

#[test]
fn several_items_are_processed_at_a_time() {
    let together = Arc::new(Barrier::new(3));
    let flow = numbers(9).try_for_each_in_threads(3, move |_, number| {
        together.wait();
        Ok::<_, String>(number)
    });
    let mut found: Vec<u64> = flow.into_iter().map(Result::unwrap).collect();
    found.sort_unstable();
    assert_eq!(found, Vec::from_iter(0..9));
}

#[test]
fn a_failed_item_takes_no_other_with_it() {
    let fail = |context: relive_flow::Context<'_>, number: u64| match number {
        2 => Err(format!("bad {number}, item {}", context.item)),
        5 => panic!("worse"),
        _ => Ok(number),
    };
    let flow = numbers(8).try_for_each_in_threads(2, fail).named("half");
    let (found, failed): (Vec<_>, Vec<_>) = flow.into_iter().partition(Result::is_ok);
    let mut found: Vec<u64> = found.into_iter().map(Result::unwrap).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1, 3, 4, 6, 7]);
    let mut texts: Vec<String> = failed.into_iter().map(|error| error.unwrap_err().to_string()).collect();
    texts.sort();
    assert_eq!(texts, ["half failed at item 2: bad 2, item 2", "half panicked at item 5: worse"]);
}

#[test]
fn results_keep_the_sources_of_their_items() {
    let shards = ParFlow::from_items(&Executor::Serial, 0..6_u64, 3).gather_sync();
    let pairs = shards.try_for_each_in_threads(2, |context, number| {
        Ok::<_, String>((context.source.map(|source| u64::from(source.0)), number))
    });
    for pair in pairs.zip_with_source() {
        let (source, (seen, number)) = pair.unwrap();
        assert_eq!((Some(u64::from(source.0)), seen), (seen, Some(number % 3)));
    }
}

/// A union does not wait for a slow function.
#[test]
fn waiting_for_a_function_is_visible_to_other_operators() {
    let (release, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let slow = numbers(1)
        .try_for_each_in_threads(1, move |_, number| wait.lock().unwrap().recv().map(|()| number + 100));
    let mut flow = Flow::union([slow, numbers(2)], Order::Ready);
    assert_eq!(flow.next().unwrap().unwrap(), 0);
    assert_eq!(flow.step().unwrap(), Stepped::Item(1));
    assert_eq!(flow.step().unwrap(), Stepped::Waiting);
    release.send(()).unwrap();
    assert_eq!(flow.next().unwrap().unwrap(), 100);
    assert!(flow.next().is_none());
}

#[test]
fn no_threads_and_checkpoints_are_refused() {
    let mut flow = numbers(1).try_for_each_in_threads(0, |_, number| Ok::<_, String>(number));
    let error = flow.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("the number of threads must be at least 1"), "{error}");
    let mut flow = numbers(1).try_for_each_in_threads(1, |_, number| Ok::<_, String>(number));
    let error = flow.save().unwrap_err();
    assert_eq!(error.to_string(), "for_each: items that are processed in threads cannot be saved");
}
