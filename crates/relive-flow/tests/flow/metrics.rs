//! Metrics of a graph, and graphs as text.

use std::time::Duration;

use relive_flow::{Executor, Flow, Order, ParFlow};

fn counting(name: &str, steps: i64) -> Flow<i32> {
    Flow::from_iter(name, 0..3).inspect_with(move |context, _| context.metrics.add("steps", steps))
}

#[test]
fn joined_graphs_share_their_metrics_and_separate_graphs_do_not() {
    let apart = counting("apart", 1_000);
    apart.metrics().add("steps", 1);
    let (one, two, three) = (counting("one", 1), counting("two", 10), counting("three", 100));
    three.metrics().time("learn", Duration::from_secs(2));
    two.metrics().time("learn", Duration::from_secs(4));
    one.metrics().set("loss", 0.5);
    let nested = Flow::union([Flow::union([one, two], Order::RoundRobin), three], Order::RoundRobin);
    let metrics = nested.metrics().clone();
    assert_eq!(nested.into_iter().collect::<Result<Vec<_>, _>>().unwrap().len(), 9);
    assert_eq!(
        (metrics.counter("steps"), metrics.value("loss"), metrics.counter("none")),
        (333, Some(0.5), 0)
    );
    assert_eq!(metrics.timer("learn").mean(), Some(Duration::from_secs(3)));
    assert_eq!(apart.metrics().counter("steps"), 1);
    let saved = metrics.counters();
    metrics.add("steps", 1);
    metrics.restore_counters(saved);
    assert_eq!(metrics.counter("steps"), 333);
}

#[test]
fn a_graph_is_rendered() {
    let joined = Flow::union([counting("\"one\"", 1), counting("two", 1)], Order::Ready);
    assert_eq!(
        joined.mermaid(),
        "flowchart LR\n    n0[\"#quot;one#quot;\"]\n    n1[\"inspect\"]\n    n0 --> n1\n    n2[\"two\"]\n    n3[\"inspect\"]\n    \
         n2 --> n3\n    n4[\"union\"]\n    n1 --> n4\n    n3 --> n4\n"
    );
}

#[test]
fn metrics_of_shard_functions_are_part_of_the_graph_metrics() {
    for executor in [Executor::Serial, Executor::Threads] {
        let counted = |flow: Flow<u64>| flow.inspect_with(|context, _| context.metrics.add("steps", 1));
        let shards = ParFlow::from_range(&executor, 10, 2).on_each(move |flow, _| counted(flow));
        let dealt = shards.repartition(3).on_each(move |flow, _| counted(flow));
        let flow = counted(dealt.gather_sync());
        let metrics = flow.metrics().clone();
        assert_eq!(flow.into_iter().filter(Result::is_ok).count(), 10);
        assert_eq!(metrics.counter("steps"), 30);
    }
}
