//! Tests appending many steps in one call.

use crate::common::{LONG, dict, leaf};
use crate::place::Place;
use relive::{
    AppendFault, AppendMismatch, DType, Error, ErrorKind, Nest, SelectorKind, Shape, TableConfig, Tensor,
    TrajectoryWriter, TrajectoryWriterOptions, Windows,
};

fn fifo() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)
}

fn rows(range: std::ops::Range<i64>) -> Nest<Tensor> {
    let values: Vec<i64> = range.collect();
    let rows = u32::try_from(values.len()).unwrap();
    Nest::Leaf(Tensor::from_slice(&values, [rows]).unwrap())
}

fn mismatch(error: &Error) -> AppendMismatch {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<AppendMismatch>());
    source.unwrap_or_else(|| panic!("no mismatch: {error}")).clone()
}

#[tokio::test]
async fn appending_a_sequence_equals_appending_its_steps() {
    for place in Place::every(&[fifo()]).await {
        for options in [
            TrajectoryWriterOptions::new(7).chunk_length(3),
            TrajectoryWriterOptions::new(7).chunk_length(7),
            TrajectoryWriterOptions::new(7),
        ] {
            let mut writer = place.client.trajectory_writer(options).unwrap();
            writer.append(&leaf(0_i64)).unwrap();
            writer.append_sequence(&rows(1..6)).unwrap();
            writer.append_sequence(&rows(6..6)).unwrap();
            writer.append(&leaf(6_i64)).unwrap();
            writer.append_sequence(&rows(7..20)).unwrap();
            assert_eq!((writer.episode_steps(), writer.history().len()), (20, 20));
            let column = writer.history().column("").unwrap();
            assert!(column.step(12).is_err() && column.step(13).is_ok());
            let last_five = column.slice(-5..).unwrap();
            let strided = column.strided(-7.., 3).unwrap();
            writer.create_item("t", 1.0, last_five).await.unwrap();
            writer.create_item("t", 1.0, strided).await.unwrap();
            writer.close().await.unwrap();
            assert_eq!(place.read_values("t", 2).await, [vec![15, 16, 17, 18, 19], vec![13, 16, 19]]);
        }
    }
}

#[tokio::test]
async fn a_sequence_continues_an_open_step_and_adds_columns() {
    let place = Place::local(&[fifo()]);
    let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(5)).unwrap();
    writer.append_partial(&dict(&[("a", leaf(100_i64))])).unwrap();
    let twice = writer.append_sequence(&dict(&[("a", rows(0..2))])).unwrap_err();
    assert_eq!(mismatch(&twice).fault, AppendFault::SetTwice);
    writer.append_sequence(&dict(&[("b", rows(0..3))])).unwrap();
    assert!(!writer.step_is_open());
    writer.append_sequence(&dict(&[("a", Nest::None), ("c", rows(3..4))])).unwrap();
    assert_eq!(writer.history().len(), 4);
    let history = writer.history();
    let value = |path, at| {
        history
            .column(path)
            .unwrap()
            .step(at)
            .map(|column| column.to_tensor().unwrap().to_vec::<i64>().unwrap())
    };
    assert_eq!(value("a", 0).unwrap(), [100]);
    assert_eq!(value("b", 2).unwrap(), [2]);
    assert_eq!(value("c", 3).unwrap(), [3]);
    assert!(value("a", 1).is_err() && value("b", 3).is_err() && value("c", 2).is_err());
}

#[tokio::test]
async fn strings_and_wide_rows() {
    for place in Place::every(&[fifo()]).await {
        let mut writer =
            place.client.trajectory_writer(TrajectoryWriterOptions::new(4).chunk_length(4)).unwrap();
        let words = Tensor::from_strings(["a", "", "ccc", "dd", "e", "f"], [3, 2]).unwrap();
        let wide: Vec<f32> = (0..3_u16).flat_map(|row| vec![f32::from(row); 500]).collect();
        let wide = Tensor::from_slice(&wide, [3, 500]).unwrap();
        let step = Nest::List(vec![Nest::Leaf(words.clone()), Nest::Leaf(wide.clone())]);
        writer.append_sequence(&step).unwrap();
        let (first, second) = (writer.history().column("0").unwrap(), writer.history().column("1").unwrap());
        assert_eq!(first.slice(0..3).unwrap().to_tensor().unwrap(), words);
        assert_eq!(second.slice(1..3).unwrap().to_tensor().unwrap(), wide.rows(1..3).unwrap());
        writer.create_window_items("t", &[1.0], Windows::of(3, &[-1])).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(place.read("t", 1).await, [[words, wide]]);
    }
}

fn writer_of_pairs() -> TrajectoryWriter {
    let place = Place::local(&[fifo()]);
    let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(3)).unwrap();
    let pair = Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap();
    writer.append(&dict(&[("a", Nest::Leaf(pair)), ("b", leaf(1_i64))])).unwrap();
    writer
}

#[test]
fn mismatches_name_the_path_and_the_difference() {
    let mut writer = writer_of_pairs();
    let double =
        dict(&[("a", Nest::Leaf(Tensor::from_slice(&[1.0_f64, 2.0], [2]).unwrap())), ("b", leaf(1_i64))]);
    let error = writer.append(&double).unwrap_err();
    let found = mismatch(&error);
    assert_eq!((found.column, found.path.as_str()), (0, "a"));
    assert_eq!(found.fault, AppendFault::DType { got: DType::Float64, expected: DType::Float32 });
    assert!(error.to_string().contains("got dtype double, but expected float"), "{error}");

    let error = writer.append(&dict(&[("b", rows(0..3))])).unwrap_err();
    let found = mismatch(&error);
    assert_eq!((found.column, found.path.as_str()), (1, "b"));
    assert_eq!(found.fault, AppendFault::Shape { got: Shape::from([3]), expected: Shape::scalar() });
    assert!(error.to_string().contains("got shape [3], but expected []"), "{error}");

    writer.append_partial(&dict(&[("b", leaf(1_i64))])).unwrap();
    let twice = mismatch(&writer.append(&dict(&[("b", leaf(1_i64))])).unwrap_err());
    assert_eq!((twice.column, twice.fault), (1, AppendFault::SetTwice));
}

#[test]
fn sequences_that_do_not_fit_store_nothing() {
    let mut writer = writer_of_pairs();
    let pairs = |rows: u32| {
        let values = vec![0.0_f32; usize::try_from(2 * rows).unwrap()];
        Nest::Leaf(Tensor::from_slice(&values, [rows, 2]).unwrap())
    };
    let faults = [
        (dict(&[("a", pairs(3)), ("b", rows(0..2))]), AppendFault::Steps { got: 2, expected: 3 }),
        (dict(&[("a", pairs(3)), ("b", leaf(1_i64))]), AppendFault::NoSteps),
        (dict(&[("a", rows(0..3))]), AppendFault::DType { got: DType::Int64, expected: DType::Float32 }),
        (
            dict(&[("b", Nest::Leaf(Tensor::from_slice(&[1_i64, 2], [1, 2]).unwrap()))]),
            AppendFault::Shape { got: Shape::from([2]), expected: Shape::scalar() },
        ),
        (dict(&[("a", pairs(1)), ("z", leaf(1_i64))]), AppendFault::NoSteps),
    ];
    for (steps, fault) in faults {
        assert_eq!(mismatch(&writer.append_sequence(&steps).unwrap_err()).fault, fault);
        assert_eq!((writer.history().len(), writer.episode_steps()), (1, 1));
        assert_eq!(writer.history().paths().collect::<Vec<_>>(), ["a", "b"]);
    }
    writer.append_sequence(&dict(&[("a", pairs(2)), ("b", rows(0..2))])).unwrap();
    assert_eq!(writer.history().len(), 3);
}

#[tokio::test]
async fn structured_mismatches_number_the_leaves() {
    use relive::{SourceColumn, StructuredConfig};

    let place = Place::local(&[fifo()]);
    let config = StructuredConfig::new("t", Nest::Leaf(SourceColumn::at(2).step(-1).unwrap()));
    let mut writer = place.client.structured_writer(vec![config]).unwrap();
    let step = |last: Nest<Tensor>| Nest::List(vec![leaf(1_i64), leaf(2_i64), last]);
    writer.append(&step(leaf(3_i64))).await.unwrap();
    let found = mismatch(&writer.append(&step(leaf(3_i32))).await.unwrap_err());
    assert_eq!((found.column, found.path.as_str()), (2, "2"));
    assert_eq!(found.fault, AppendFault::DType { got: DType::Int32, expected: DType::Int64 });
    let count = writer.append(&Nest::List(vec![leaf(1_i64), leaf(2_i64)])).await.unwrap_err();
    assert!(count.to_string().contains("has 2 leaves, but must have 3"), "{count}");
    writer.end_episode(true, LONG).await.unwrap();
}
