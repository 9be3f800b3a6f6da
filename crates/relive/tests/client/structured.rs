//! Tests items that are created from patterns.

use crate::common::{LONG, TestServer, dict, leaf, values};
use crate::place::Place;
use relive::{
    Condition, Error, ErrorKind, Nest, PriorityFn, SelectorKind, SourceColumn, StructuredConfig,
    StructuredWriter, TableConfig, Tensor, reference_step,
};

fn column(source: u32) -> SourceColumn {
    SourceColumn::at(source)
}

fn fifo(name: &str) -> TableConfig {
    TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1)
}

/// Samples all items of a fifo table, oldest first.
async fn drain(server: &TestServer, table: &str) -> Vec<Vec<i64>> {
    let client = server.client();
    let size = client.server_info().await.unwrap().table(table).unwrap().current_size;
    if size == 0 {
        return Vec::new();
    }
    values(&client.sample(table, usize::try_from(size).unwrap()).await.unwrap())
}

async fn write(writer: &mut StructuredWriter, range: std::ops::Range<i64>) {
    for i in range {
        writer.append(&dict(&[("a", leaf(i)), ("b", leaf(10 * i))])).await.unwrap();
    }
}

#[tokio::test]
async fn slices_strides_and_single_steps() {
    let server = TestServer::start([fifo("s"), fifo("d"), fifo("n")]).await;
    let configs = vec![
        StructuredConfig::new("s", Nest::Leaf(column(0).slice(-3..-1).unwrap())),
        StructuredConfig::new("d", Nest::Leaf(column(1).strided(-5.., 2).unwrap())),
        StructuredConfig::new("n", Nest::Leaf(column(0).step(-2).unwrap())),
    ];
    let mut writer = server.client().structured_writer(configs).unwrap();
    write(&mut writer, 0..6).await;
    writer.close().await.unwrap();
    assert_eq!(drain(&server, "s").await, [[0, 1], [1, 2], [2, 3], [3, 4]]);
    assert_eq!(drain(&server, "d").await, [[0, 20, 40], [10, 30, 50]]);
    assert_eq!(drain(&server, "n").await, [[0], [1], [2], [3], [4]]);
}

#[tokio::test]
async fn conditions() {
    let server = TestServer::start(["mod", "since", "end", "data"].map(fifo)).await;
    let newest = || Nest::Leaf(column(0).slice(-1..).unwrap());
    let configs = vec![
        StructuredConfig::new("mod", newest()).condition(Condition::step_index().modulo(3, 1)),
        StructuredConfig::new("since", newest()).condition(Condition::steps_since_applied().ge(2)),
        StructuredConfig::new("end", newest()).condition(Condition::is_end_episode()),
        StructuredConfig::new("data", newest()).condition(Condition::data(column(1)).ge(30)),
    ];
    let mut writer = server.client().structured_writer(configs).unwrap();
    write(&mut writer, 0..5).await;
    writer.end_episode(true, LONG).await.unwrap();
    write(&mut writer, 5..7).await;
    writer.end_episode(true, LONG).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(drain(&server, "mod").await, [[1], [4], [6]]);
    assert_eq!(drain(&server, "since").await, [[1], [3], [5]]);
    assert_eq!(drain(&server, "end").await, [[4], [6]]);
    assert_eq!(drain(&server, "data").await, [[3], [4], [5], [6]]);
}

#[tokio::test]
async fn columns_are_named_by_their_paths() {
    let server = TestServer::start([fifo("t")]).await;
    let nested = |image: i64, speed: i64, action: i64| {
        let observation = dict(&[("image", leaf(image)), ("speed", leaf(speed))]);
        dict(&[("action", leaf(action)), ("observation", observation)])
    };
    let step = reference_step(&nested(0, 0, 0));
    let pattern = Nest::dict([
        ("frames", step.column("observation/image").unwrap().slice(-2..).unwrap()),
        ("speed", step.column("observation/speed").unwrap().step(-1).unwrap()),
    ]);
    let moved = Condition::data(step.column("action").unwrap()).ge(1);
    let config = StructuredConfig::new("t", pattern).condition(moved);
    let mut writer = server.client().structured_writer(vec![config]).unwrap();
    for (number, action) in (1..).zip([1, 0, 1, 1]) {
        writer.append(&nested(number, 10 * number, action)).await.unwrap();
    }
    writer.close().await.unwrap();
    // The first step has no predecessor, and the second has action 0: neither creates an item.
    let samples = server.client().sample("t", 2).await.unwrap();
    let columns = |at: usize| -> Vec<Vec<i64>> {
        samples[at].columns().unwrap().iter().map(|column| column.to_vec().unwrap()).collect()
    };
    assert_eq!(columns(0), [vec![2, 3], vec![30]]);
    assert_eq!(columns(1), [vec![3, 4], vec![40]]);
    let names = server.client().column_names("t").await.unwrap().unwrap();
    assert_eq!(names, Nest::dict([("frames", ()), ("speed", ())]));
}

#[tokio::test]
async fn partial_steps_make_one_item_each() {
    let server = TestServer::start([fifo("t")]).await;
    let config = StructuredConfig::new("t", Nest::Leaf(column(1).step(-1).unwrap()));
    let mut writer = server.client().structured_writer(vec![config]).unwrap();
    writer.append_partial(&dict(&[("a", leaf(1_i64)), ("b", Nest::None)])).await.unwrap();
    assert!(writer.step_is_open());
    writer.append_partial(&dict(&[("a", Nest::None), ("b", leaf(2_i64))])).await.unwrap();
    let twice = writer.append_partial(&dict(&[("a", Nest::None), ("b", leaf(3_i64))])).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::FailedPrecondition, "{twice}");
    writer.append(&dict(&[("a", Nest::None), ("b", Nest::None)])).await.unwrap();
    writer.append(&dict(&[("a", leaf(3_i64)), ("b", Nest::None)])).await.unwrap();
    writer.append(&dict(&[("a", leaf(3_i64)), ("b", leaf(4_i64))])).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(drain(&server, "t").await, [[2], [4]]);
}

#[tokio::test]
async fn priorities_from_errors() {
    let server = TestServer::start([fifo("t")]).await;
    let config = StructuredConfig::new("t", Nest::Leaf(column(0).slice(-2..).unwrap()))
        .priority(PriorityFn::TdError { max_priority_weight: 0.9, column: column(0) });
    let mut writer = server.client().structured_writer(vec![config]).unwrap();
    for error in [1.0_f32, -3.0, 2.0] {
        writer.append(&leaf(error)).await.unwrap();
    }
    writer.close().await.unwrap();
    let samples = server.client().sample("t", 2).await.unwrap();
    let priorities: Vec<f64> = samples.iter().map(|sample| sample.info().priority).collect();
    assert!((priorities[0] - 2.9).abs() < 1e-9 && (priorities[1] - 2.95).abs() < 1e-9, "{priorities:?}");
}

#[tokio::test]
async fn steps_of_another_shape_are_refused() {
    let server = TestServer::start([fifo("t")]).await;
    let config = StructuredConfig::new("t", Nest::Leaf(column(0).step(-1).unwrap()));
    let mut writer = server.client().structured_writer(vec![config]).unwrap();
    write(&mut writer, 0..1).await;
    for bad in [
        leaf(1_i64),
        dict(&[("a", leaf(1_i64)), ("c", leaf(1_i64))]),
        dict(&[("a", leaf(1_i32)), ("b", leaf(1_i64))]),
    ] {
        let error = writer.append(&bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    write(&mut writer, 1..2).await;
    writer.close().await.unwrap();
    assert_eq!(drain(&server, "t").await, [[0], [1]]);
    let beyond = StructuredConfig::new("t", Nest::Leaf(column(2).step(-1).unwrap()));
    let mut writer = server.client().structured_writer(vec![beyond]).unwrap();
    let step = Nest::List(vec![Nest::Leaf(Tensor::scalar(1_i64))]);
    assert!(writer.append(&step).await.unwrap_err().to_string().contains("column 2"));
}

#[tokio::test]
async fn errors_that_are_not_finite_cost_only_the_items_that_need_them() {
    let error = || Nest::Leaf(column(1).step(-1).unwrap());
    let td_error = PriorityFn::TdError { max_priority_weight: 1.0, column: column(1) };
    let configs = || {
        vec![
            StructuredConfig::new("due", error())
                .priority(td_error)
                .condition(Condition::data(column(0)).ge(1)),
            StructuredConfig::new("ends", error()).priority(td_error).condition(Condition::is_end_episode()),
            StructuredConfig::new("all", error()),
        ]
    };
    let prioritized = fifo("due").sampler(SelectorKind::Prioritized { exponent: 0.6 });
    for place in Place::every(&[prioritized, fifo("ends"), fifo("all")]).await {
        let mut writer = place.client.structured_writer(configs()).unwrap();
        for (is_due, error) in
            [(1_i64, 1.0_f32), (0, f32::NAN), (1, f32::NAN), (1, f32::INFINITY), (1, 2.0), (0, f32::NAN)]
        {
            let step = dict(&[("due", leaf(is_due)), ("error", leaf(error))]);
            let appended = writer.append(&step).await;
            assert_eq!(appended.is_ok(), is_due == 0 || error.is_finite(), "{is_due}, {error}");
            if let Err(error) = appended {
                needs_finite_values(&error);
            }
        }
        needs_finite_values(&writer.end_episode(true, LONG).await.unwrap_err());
        assert_eq!(writer.episode_steps(), 6);
        writer.end_episode(true, LONG).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(["due", "ends", "all"].map(|table| place.size(table)), [2, 0, 6]);
    }
}

fn needs_finite_values(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("a priority needs finite values"), "{error}");
}
