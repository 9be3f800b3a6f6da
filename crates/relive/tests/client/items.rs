//! Tests columns that are composed by the caller, and many items in one call.

use std::time::Duration;

use crate::common::{LONG, dict, leaf};
use crate::place::Place;
use relive::{
    CellState, Column, ErrorKind, Nest, RateLimiterConfig, SelectorKind, Signature, TableConfig, Tensor,
    TensorSpec, TrajectoryColumns, TrajectoryWriter, TrajectoryWriterOptions, Windows,
};

fn fifo() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)
}

/// Returns a writer with the numbers from 0 to `steps` in column `x`, and their negatives in column `y`.
fn writer_of(place: &Place, options: TrajectoryWriterOptions, steps: i64) -> TrajectoryWriter {
    let mut writer = place.client.trajectory_writer(options).unwrap();
    for i in 0..steps {
        writer.append(&dict(&[("x", leaf(i)), ("y", leaf(-i))])).unwrap();
    }
    writer
}

fn data(column: &Column) -> Vec<i64> {
    column.to_tensor().unwrap().to_vec().unwrap()
}

#[tokio::test]
async fn a_column_is_read_from_any_storage_state() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = writer_of(&place, TrajectoryWriterOptions::new(6).chunk_length(4), 6);
        let column = writer.history().column("x").unwrap();
        // Steps 0 to 3 are in a chunk; steps 4 and 5 are not in a chunk yet.
        let all = column.slice(..).unwrap();
        let newest = column.step(-1).unwrap();
        assert_eq!(data(&all), [0, 1, 2, 3, 4, 5]);
        assert_eq!(newest.to_tensor().unwrap(), Tensor::scalar(5_i64));
        assert_eq!(data(&column.rows(&[5, 0, 4, 4]).unwrap()), [5, 0, 4, 4]);
        writer.flush(LONG).await.unwrap();
        writer.end_episode(true, LONG).await.unwrap();
        assert_eq!(data(&all), [0, 1, 2, 3, 4, 5]);
        writer.close().await.unwrap();
        drop(writer);
        assert_eq!((data(&all), data(&newest)), (vec![0, 1, 2, 3, 4, 5], vec![5]));
    }
}

#[tokio::test]
async fn columns_of_columns() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = writer_of(&place, TrajectoryWriterOptions::new(6).chunk_length(4), 6);
        let (x, y) = (writer.history().column("x").unwrap(), writer.history().column("y").unwrap());
        let parts = [x.step(-1).unwrap(), x.slice(1..3).unwrap(), y.step(5).unwrap()];
        let joined = Column::concat(&parts, false).unwrap();
        assert_eq!((joined.len(), data(&joined)), (4, vec![5, 1, 2, -5]));
        let some = joined.subcolumn(&[3, 0, 1, 1]).unwrap();
        assert_eq!(data(&some), [-5, 5, 1, 1]);
        let one = Column::concat(&[some.subcolumn(&[1]).unwrap()], true).unwrap();
        assert_eq!(one.to_tensor().unwrap(), Tensor::scalar(5_i64));
        writer.create_item("t", 1.0, [joined, one]).await.unwrap();
        writer.close().await.unwrap();
        let read = place.read("t", 1).await.remove(0);
        assert_eq!(read[0].to_vec::<i64>().unwrap(), [5, 1, 2, -5]);
        assert_eq!(read[1], Tensor::scalar(5_i64));
    }
}

#[tokio::test]
async fn incompatible_columns_are_refused() {
    let place = Place::local(&[fifo()]);
    let mut writer = writer_of(&place, TrajectoryWriterOptions::new(6), 2);
    writer
        .append(&dict(&[("z", leaf(1_i32)), ("v", Nest::Leaf(Tensor::from_slice(&[1_i64], [1]).unwrap()))]))
        .unwrap();
    let other = writer_of(&place, TrajectoryWriterOptions::new(6), 1);
    let step =
        |writer: &TrajectoryWriter, path: &str, at| writer.history().column(path).unwrap().step(at).unwrap();
    let x = step(&writer, "x", 0);
    let bad = [
        (vec![], false, "at least one step"),
        (vec![x.clone(), step(&other, "x", 0)], false, "different writers"),
        (vec![x.clone(), step(&writer, "z", 2)], false, "int32"),
        (vec![x.clone(), step(&writer, "v", 2)], false, "[1]"),
        (vec![x.clone(), x.clone()], true, "can be squeezed"),
    ];
    for (parts, squeeze, why) in bad {
        let error = Column::concat(&parts, squeeze).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(why), "{error}");
    }
    assert!(x.subcolumn(&[]).is_err() && x.subcolumn(&[1]).is_err());
}

#[tokio::test]
async fn weak_cells_expire_with_the_history() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = writer_of(&place, TrajectoryWriterOptions::new(3).chunk_length(3), 4);
        let column = writer.history().column("x").unwrap();
        let states: Vec<CellState> = (0..4).map(|at| column.cell_state(at).unwrap()).collect();
        let (present, expired) = (CellState::Present, CellState::Expired);
        assert_eq!(states, [expired, present, present, present]);
        assert!(column.cell_state(4).is_err());
        assert!(column.weak_cell(0).is_err());
        let (first, newest) = (column.weak_cell(1).unwrap(), column.weak_cell(-1).unwrap());
        let kept = first.upgrade().unwrap();
        assert_eq!((data(&kept), kept.is_squeezed()), (vec![1], true));

        // The chunk of steps 0 to 2 is still kept for step 2, but step 1 is no longer in the history.
        writer.append(&dict(&[("x", leaf(4_i64))])).unwrap();
        assert!(first.is_expired() && first.upgrade().is_none());
        assert!(!newest.is_expired());
        assert_eq!(writer.history().column("y").unwrap().cell_state(4).unwrap(), CellState::Missing);
        // An upgraded reference keeps its data.
        writer.create_item("t", 1.0, kept).await.unwrap();
        writer.end_episode(true, LONG).await.unwrap();
        assert!(newest.is_expired() && newest.upgrade().is_none());
        writer.close().await.unwrap();
        assert_eq!(place.read_values("t", 1).await, [[1]]);
    }
}

#[tokio::test]
async fn many_items_in_one_call() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = writer_of(&place, TrajectoryWriterOptions::new(9).chunk_length(2), 9);
        let column = writer.history().column("x").unwrap();
        let trajectories: Vec<TrajectoryColumns> =
            (0..9).map(|i| TrajectoryColumns::from(column.step(i).unwrap())).collect();
        let keys = writer.create_items("t", &[1.0; 9], &trajectories).await.unwrap();
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 9);
        assert_eq!(writer.create_items("t", &[], &[]).await.unwrap(), [0_u64; 0]);
        let error = writer.create_items("t", &[1.0], &[]).await.unwrap_err();
        assert!(error.to_string().contains("1 priorities for 0 trajectories"), "{error}");
        // If one item is invalid, none is created.
        assert!(writer.create_items("t", &[1.0, f64::NAN], &trajectories[..2]).await.is_err());
        writer.close().await.unwrap();
        assert_eq!(place.size("t"), 9);
        let expected: Vec<Vec<i64>> = (0..9).map(|i| vec![i]).collect();
        assert_eq!(place.read_values("t", 9).await, expected);
    }
}

#[tokio::test]
async fn windows() {
    for place in Place::every(&[fifo()]).await {
        for options in [TrajectoryWriterOptions::new(9).chunk_length(4), TrajectoryWriterOptions::new(9)] {
            let mut writer = writer_of(&place, options, 9);
            let threes = Windows::of(3, &[2, 3, -1]);
            assert_eq!(writer.create_window_items("t", &[1.0; 3], threes).await.unwrap().len(), 3);
            let steps = Windows::steps(&[-1, 0]).columns(&[1]);
            writer.create_window_items("t", &[1.0; 2], steps).await.unwrap();
            writer.close().await.unwrap();
            let read = place.read("t", 5).await;
            let values: Vec<Vec<Vec<i64>>> = read
                .iter()
                .map(|item| item.iter().map(|column| column.to_vec().unwrap()).collect())
                .collect();
            let both =
                |first: i64| vec![vec![first, first + 1, first + 2], vec![-first, -first - 1, -first - 2]];
            assert_eq!(values[..3], [both(0), both(1), both(6)]);
            assert_eq!(values[3..], [vec![vec![-8]], vec![vec![0]]]);
            assert_eq!((read[0][0].shape().rank(), read[3][0].shape().rank()), (1, 0));
        }
    }
}

#[tokio::test]
async fn invalid_windows_are_refused() {
    let signature = Signature::Leaf(TensorSpec::new("x", relive::DType::Int64, Some(vec![Some(2)])));
    let place = Place::local(&[fifo(), TableConfig::new("two").signature(signature)]);
    let mut writer = writer_of(&place, TrajectoryWriterOptions::new(3), 5);
    writer.append(&dict(&[("x", leaf(5_i64))])).unwrap();
    let cases = [
        (Windows::of(0, &[-1]), "1 to 4294967295 steps, got 0"),
        (Windows::of(2, &[6]), "outside"),
        (Windows::of(7, &[-1]), "before the history"),
        (Windows::of(4, &[-1]).columns(&[0]), "no longer available"),
        (Windows::of(2, &[-1]), "nothing was appended"),
        (Windows::of(2, &[-1]).columns(&[2]), "no column number 2"),
        (Windows::of(2, &[-1]).columns(&[]), "no columns"),
        (Windows::of(2, &[-1, -2]).columns(&[0]), "create_window_items: 1 priorities for 2 windows"),
    ];
    for (windows, why) in cases {
        let error = writer.create_window_items("t", &[1.0], windows).await.unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(why), "{error}");
    }
    let nan = writer.create_window_items("t", &[f64::NAN], Windows::steps(&[-1]).columns(&[0])).await;
    assert!(nan.unwrap_err().to_string().contains("NaN"));
    let three = writer.create_window_items("two", &[1.0], Windows::of(3, &[-1]).columns(&[0])).await;
    assert!(three.unwrap_err().to_string().contains("int64 (3,)"));
    writer.create_window_items("two", &[1.0], Windows::of(2, &[-1]).columns(&[0])).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!((place.size("t"), place.size("two")), (0, 1));
}

#[tokio::test]
async fn a_call_with_many_items_counts_as_one() {
    let limiter =
        RateLimiterConfig { samples_per_insert: 1.0, min_size_to_sample: 1, min_diff: 0.0, max_diff: 1.0 };
    for place in Place::every(&[fifo().rate_limiter(limiter)]).await {
        let options = TrajectoryWriterOptions::new(1).max_pending_items(2);
        let mut writer = place.client_with(Duration::from_millis(50)).trajectory_writer(options).unwrap();
        writer.append(&leaf(7_i64)).unwrap();
        let windows = Windows::steps(&[-1; 5]);
        assert_eq!(writer.create_window_items("t", &[1.0; 5], windows).await.unwrap().len(), 5);
        assert!(writer.flush(Duration::from_millis(50)).await.is_err());
        assert_eq!(writer.try_create_window_items("t", &[1.0; 5], windows).unwrap(), None);
        assert!(writer.create_window_items("t", &[1.0; 5], windows).await.unwrap_err().is_timeout());
        assert_eq!(place.read_values("t", 5).await, vec![[7]; 5]);
        writer.close().await.unwrap();
        assert_eq!(place.size("t"), 0);
    }
}

#[test]
fn columns_are_read_on_other_threads_while_chunks_are_cut() {
    let place = Place::local(&[fifo()]);
    let options = TrajectoryWriterOptions::new(4).chunk_length(3);
    let mut writer = place.client.trajectory_writer(options).unwrap();
    let (send, receive) = std::sync::mpsc::channel::<(i64, Column)>();
    let reader = std::thread::spawn(move || {
        for (newest, column) in receive {
            let first = newest + 1 - i64::try_from(column.len()).unwrap();
            assert_eq!(data(&column), (first..=newest).collect::<Vec<_>>());
        }
    });
    for i in 0..2_000_i64 {
        writer.append(&leaf(i)).unwrap();
        let kept = writer.history().column("").unwrap().slice(-(i + 1).min(4)..).unwrap();
        send.send((i, kept)).unwrap();
    }
    drop(send);
    reader.join().unwrap();
}

/// Every item has the requested content, regardless of the chunk lengths that the tuner chooses.
#[tokio::test]
async fn tuned_chunks_in_bulk() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(50)).unwrap();
        for first in (0..2_000_i64).step_by(50) {
            let values: Vec<i64> = (first..first + 50).collect();
            writer.append_sequence(&Nest::Leaf(Tensor::from_slice(&values, [50]).unwrap())).unwrap();
            let ends: Vec<i64> = (-46..0).collect();
            writer.create_window_items("t", &[1.0; 46], Windows::of(5, &ends)).await.unwrap();
        }
        writer.close().await.unwrap();
        let read = place.read_values("t", 40 * 46).await;
        for (number, item) in (0_i64..).zip(read) {
            let first = number / 46 * 50 + number % 46;
            assert_eq!(item, (first..first + 5).collect::<Vec<_>>());
        }
    }
}

/// Chunks end where items end: an item with many steps has few chunks, and no item waits for later steps.
#[tokio::test]
async fn chunk_boundaries_follow_item_boundaries() {
    for place in Place::every(&[fifo()]).await {
        let mut writer = place.client.trajectory_writer(TrajectoryWriterOptions::new(20)).unwrap();
        let mut chunks = Vec::new();
        for i in 1..=77_i64 {
            writer.append(&leaf(i)).unwrap();
            if i >= 20 && (i % 10 == 0 || i == 77) {
                let steps = writer.history().column("").unwrap().slice(-20..).unwrap();
                writer.create_item("t", 1.0, steps).await.unwrap();
                let sampled = place.sample_one("t").await;
                let column = sampled.item.trajectory.decode().unwrap().remove(0);
                assert_eq!(column.to_vec::<i64>().unwrap(), (i - 19..=i).collect::<Vec<_>>());
                chunks.push(sampled.item.trajectory.chunks().len());
            }
        }
        // Before the first item, the writer has no information about where items end. The last item is created early.
        assert_eq!(chunks, [20, 11, 2, 2, 2, 2, 3]);
        writer.close().await.unwrap();
    }
}
