//! Graphs that are saved and resumed elsewhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use relive_flow::{
    Async, ErrorKind, Executor, Flow, GraphState, Lead, OnFailure, Order, ParFlow, Ratio, Resubmit, Timer,
    Weight,
};

use crate::plain::{Step, flowing, steps};

/// The sources of the random chains of operators.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Joined {
    Copies,
    DroppingCopies,
    Weighted,
    Ready,
    Ratio,
    Sync,
    Across,
    Async(Resubmit),
    Repartition,
}

pub(crate) fn joined() -> impl Strategy<Value = Joined> {
    prop::sample::select(vec![
        Joined::Copies,
        Joined::DroppingCopies,
        Joined::Weighted,
        Joined::Ready,
        Joined::Ratio,
        Joined::Sync,
        Joined::Across,
        Joined::Async(Resubmit::Before),
        Joined::Async(Resubmit::After),
        Joined::Repartition,
    ])
}

pub(crate) fn graph(joined: Joined, items: &[i64], steps: &[Step]) -> Flow<i64> {
    let chain = |flow| steps.iter().fold(flow, flowing);
    let source = || Flow::from_iter("items", items.to_vec());
    let weights = vec![Weight::Times(1.5), Weight::Times(0.3), Weight::All];
    let shards = || {
        let steps = steps.to_vec();
        ParFlow::from_items(&Executor::Serial, items.to_vec(), 3)
            .on_each(move |flow, _| steps.iter().fold(flow, flowing))
    };
    let ahead = |resubmit| Async { depth: 2, resubmit };
    match joined {
        Joined::Copies => {
            let [one, other] = source().duplicate(3);
            Flow::union([one.for_each(|item| item + 1), chain(other)], Order::Ready)
        }
        Joined::DroppingCopies => {
            let [one, other] = source().duplicate(Lead::dropping_oldest(2));
            Flow::union([one, chain(other)], Order::weighted([5.0, 1.0].map(Weight::Times)))
        }
        Joined::Weighted => {
            let flows = [chain(source()), source().take(5), source()];
            Flow::union(flows, Order::Weighted { weights, seed: 3 })
        }
        Joined::Ready => Flow::union([chain(source()), source()], Order::Ready).retry(1),
        Joined::Ratio => Flow::in_ratio(chain(source()), source(), Ratio::exact(1.5, 3)),
        Joined::Sync => shards().on_failure(OnFailure::Restart { times: 2 }).gather_sync(),
        Joined::Across => shards().batch_across_shards().for_each(|items| items.iter().sum()),
        Joined::Async(resubmit) => shards().gather_async(ahead(resubmit)).for_each_with(|context, item| {
            context.metrics.add("items", 1);
            item * 100 + i64::try_from(context.item).unwrap()
        }),
        Joined::Repartition => shards().repartition(2).gather_async(ahead(Resubmit::Before)),
    }
}

proptest! {
    #[test]
    fn a_restored_graph_continues_like_the_saved_one(
        joined in joined(),
        items in prop::collection::vec(-20..20_i64, 0..40),
        steps in steps(),
    ) {
        let make = || graph(joined, &items, &steps);
        let whole: Vec<i64> = make().into_iter().collect::<Result<_, _>>().unwrap();
        let mut flow = make();
        for given in 0..=whole.len() {
            match flow.save() {
                Ok(state) => {
                    let mut resumed = make();
                    resumed.restore(&state).unwrap();
                    prop_assert_eq!(resumed.save().unwrap(), state);
                    let rest: Vec<i64> = resumed.into_iter().collect::<Result<_, _>>().unwrap();
                    prop_assert_eq!(&rest, &whole[given..], "after {} items", given);
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Unsaved);
                    prop_assert!(given > 0, "nothing is held before the first pull: {}", error);
                }
            }
            let item = flow.next().transpose().unwrap();
            prop_assert_eq!(item, whole.get(given).copied());
        }
    }
}

#[test]
fn checkpoints_wait_until_no_operator_holds_items() {
    let saved = Arc::new(Mutex::new(Vec::<GraphState>::new()));
    let file = Arc::clone(&saved);
    // Lists of three items are flattened and batched to pairs, so after every six items, no operator holds any.
    let graph = || Flow::from_iter("items", 0..24).batch(3).flatten().batch(2);
    let mut flow = graph().checkpoint(2, move |state| {
        file.lock().unwrap().push(state.clone());
        Ok::<_, String>(())
    });
    while flow.next().transpose().unwrap().is_some() {}
    let saved = saved.lock().unwrap();
    let resumed = saved.iter().map(|state| {
        let mut flow = graph();
        flow.restore(state).unwrap();
        flow.into_iter().map(Result::unwrap).next()
    });
    assert_eq!(resumed.collect::<Vec<_>>(), [Some(vec![6, 7]), Some(vec![12, 13]), Some(vec![18, 19]), None]);
}

#[test]
fn states_of_shards_are_saved_by_the_caller() {
    let count = |count: &mut u64| {
        *count += 1;
        Some(*count)
    };
    let shards = |states: [u64; 2]| {
        let of = move |shard: u32| states[shard as usize];
        ParFlow::from_states(&Executor::Serial, 2, of, count)
    };
    let par = shards([0, 100]);
    let states = par.shards();
    let mut flow = par.gather_sync();
    assert_eq!((flow.next().unwrap().unwrap(), flow.next().unwrap().unwrap()), (1, 101));
    let (state, kept) = (flow.save().unwrap(), [0, 1].map(|shard: usize| states[shard].with(|state| *state)));
    let mut resumed = shards(kept).gather_sync();
    resumed.restore(&state).unwrap();
    assert_eq!((resumed.next().unwrap().unwrap(), resumed.next().unwrap().unwrap()), (2, 102));
}

#[test]
fn metrics_are_part_of_the_state() {
    let numbers = || Flow::from_iter("numbers", 0..9);
    let mut flow = numbers();
    flow.metrics().add("steps", 3);
    flow.metrics().set("loss", 0.5);
    flow.metrics().time("learn", Duration::from_secs(2));
    let state = flow.save().unwrap();
    let mut resumed = numbers();
    resumed.metrics().set("kept by no state", 1.0);
    resumed.restore(&state).unwrap();
    let metrics = resumed.metrics();
    assert_eq!((metrics.counter("steps"), metrics.value("loss")), (3, Some(0.5)));
    assert_eq!(metrics.timer("learn"), Timer { count: 1, total: Duration::from_secs(2) });
    assert_eq!(metrics.value("kept by no state"), None);
}

#[test]
fn the_number_of_dropped_items_is_part_of_the_state() {
    let graph = || {
        let [one, other] = Flow::from_iter("numbers", 0..9).duplicate(Lead::dropping_oldest(1));
        Flow::union([one, other], Order::weighted([4.0, 1.0].map(Weight::Times)))
    };
    let mut flow = graph();
    let items: Vec<i32> = (0..5).map(|_| flow.next().unwrap().unwrap()).collect();
    assert_eq!(items, [0, 1, 2, 3, 3]);
    let mut resumed = graph();
    resumed.restore(&flow.save().unwrap()).unwrap();
    let [_, _, other, _] = &resumed.monitor().operators()[..] else { panic!("four operators") };
    assert_eq!((other.items, other.dropped, other.queued), (1, Some(3), Some(0)));
}

fn unsaved<T: 'static>(result: Result<T, relive_flow::FlowError>) -> String {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsaved);
    error.to_string()
}

#[test]
fn operators_that_cannot_be_saved_are_named() {
    let numbers = || Flow::from_iter("numbers", 0..100);
    let kept = |_: &GraphState| Ok::<_, String>(());
    let mut ahead = numbers().prefetch(2);
    assert_eq!(unsaved(ahead.save()), "prefetch(2): items that a thread has prefetched cannot be saved");
    let mut threads = ParFlow::from_range(&Executor::Threads, 10, 2).gather_sync();
    threads.save().unwrap();
    threads.next().unwrap().unwrap();
    threads.next().unwrap().unwrap();
    assert_eq!(
        unsaved(threads.save()),
        "gather_sync of 2 shards: shards that run in threads cannot be saved"
    );
    let mut silent = Flow::from_pull("table", crate::faults::Silent);
    assert_eq!(
        unsaved(silent.save()),
        "table: it does not implement Pull::checkpoint, so it cannot be saved"
    );
    let mut shuffled = numbers().shuffle(4, 1);
    shuffled.next().unwrap().unwrap();
    assert_eq!(unsaved(shuffled.save()), "items that operators hold cannot be saved: shuffle(4) has 3");
    let mut actual = numbers().shuffle(4, 1).checkpoint(5, kept);
    let places: Vec<_> = (0..12).filter(|_| actual.next().unwrap().is_err()).collect();
    assert_eq!(places, [10]);
    let mut actual = numbers().shuffle(4, 1).checkpoint(5, kept).into_iter().filter_map(Result::err);
    assert_eq!(
        unsaved(Err::<(), _>(actual.next().unwrap())),
        "checkpoint(5) failed at item 10: the checkpoint was postponed for 5 items, because operators always held items \
         (shuffle(4) has 3); held items cannot be saved"
    );
    let refused = numbers().checkpoint(0, kept).next().unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "checkpoint(0): the interval between checkpoints must be at least one item"
    );
    let mut full = numbers().checkpoint(2, |_| Err("the disk is full"));
    let actual = std::iter::from_fn(|| full.next()).find_map(Result::err).unwrap();
    assert_eq!(
        (actual.kind(), actual.to_string().as_str()),
        (ErrorKind::Operator, "checkpoint(2) failed at item 2: the disk is full")
    );
    assert_eq!(full.next().unwrap().unwrap(), 2);
}

#[test]
fn the_state_of_another_graph_is_refused() {
    let numbers = || Flow::from_iter("numbers", 0..100);
    let other = "the checkpoint is of a different graph: ";
    let state = numbers().filter(|_| true).take(5).save().unwrap();
    let text = unsaved(numbers().for_each(|number| number).take(5).restore(&state));
    assert_eq!(text, format!("{other}it has `filter` where this graph has `for_each`"));
    assert_eq!(
        unsaved(numbers().restore(&GraphState::default())),
        format!("{other}it has nothing where this graph has `numbers`")
    );
    let mut cut = numbers().save().unwrap();
    cut.operators[0].numbers.pop();
    assert_eq!(unsaved(numbers().restore(&cut)), format!("{other}numbers was saved with other settings"));
    let mut more = numbers().save().unwrap();
    more.operators[0].numbers.push(1);
    assert_eq!(unsaved(numbers().restore(&more)), format!("{other}numbers was saved with other settings"));
    more = numbers().save().unwrap();
    more.operators.push(more.operators[0].clone());
    assert_eq!(unsaved(numbers().restore(&more)), format!("{other}it also has `numbers`"));
    let union = || Flow::union([numbers(), numbers()], Order::RoundRobin);
    let mut many = union().save().unwrap();
    many.operators[0].numbers[2] = u64::MAX;
    assert_eq!(unsaved(union().restore(&many)), "union: it was saved with different flows");
    let dealt = || ParFlow::from_range(&Executor::Serial, 9, 2).repartition(2).gather_async(Async::default());
    let mut flow = dealt();
    flow.next().unwrap().unwrap();
    let mut far = flow.save().unwrap();
    // The numbers: items, errors, the next shard to poll, the number of shards, and the destination of the first
    // shard's next item.
    far.operators[1].numbers[4] = 7;
    assert_eq!(unsaved(dealt().restore(&far)), "repartition(2): it was saved with different shards");
}
