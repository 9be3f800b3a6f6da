//! Tests that readers receive exactly the data that was written.

use crate::common::{LONG, TestServer, dict, leaf, values};
use relive::{
    DType, ErrorKind, Nest, SamplerOptions, SelectorKind, Signature, TableConfig, Tensor, TensorSpec,
    TrajectoryWriterOptions,
};

fn one_of_every_dtype() -> Vec<Tensor> {
    let fixed = DType::ALL.iter().copied().filter(|dtype| *dtype != DType::String && *dtype != DType::Bool);
    let mut tensors: Vec<Tensor> = fixed
        .map(|dtype| {
            let size = dtype.size_bytes().unwrap();
            let bytes: Vec<u8> = (0..6 * size).map(|i| u8::try_from(i % 7).unwrap()).collect();
            Tensor::new(dtype, [2, 3], bytes.into()).unwrap()
        })
        .collect();
    tensors.push(Tensor::from_bools(&[true, false, true], [3]).unwrap());
    tensors.push(Tensor::from_strings(["x", "", "a longer one"], [3]).unwrap());
    tensors.push(Tensor::from_slice::<f32>(&[], [0]).unwrap());
    tensors
}

#[tokio::test]
async fn every_dtype() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let tensors = one_of_every_dtype();
    let step = Nest::List(tensors.iter().cloned().map(Nest::Leaf).collect());
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(2).chunk_length(2)).unwrap();
    writer.append(&step).unwrap();
    writer.append(&step).unwrap();
    let history = writer.history();
    let both: Vec<_> =
        (0..tensors.len()).map(|i| history.column_at(i).unwrap().slice(-2..).unwrap()).collect();
    writer.create_item("t", 1.0, both).await.unwrap();
    writer.close().await.unwrap();

    let sample = client.sample("t", 1).await.unwrap().remove(0);
    let columns = sample.columns().unwrap();
    assert_eq!(columns.len(), tensors.len());
    for (column, tensor) in columns.iter().zip(&tensors) {
        assert_eq!(*column, Tensor::stack(&[tensor.clone(), tensor.clone()]).unwrap());
    }
}

#[tokio::test]
async fn nested_steps_with_gaps_strides_repeats_and_squeezed_columns() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let client = server.client();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(8).chunk_length(4)).unwrap();
    for i in 0..8_i64 {
        let step = dict(&[("obs", Nest::List(vec![leaf(i), leaf(10 * i)])), ("reward", leaf(100 * i))]);
        writer.append(&step).unwrap();
    }
    let history = writer.history();
    let trajectory = vec![
        history.column("obs/0").unwrap().rows(&[0, 2, 2, 1]).unwrap(),
        history.column("obs/1").unwrap().strided(.., 2).unwrap(),
        history.column("reward").unwrap().step(-1).unwrap(),
        history.column("reward").unwrap().slice(-5..-2).unwrap(),
    ];
    let key = writer.create_item("t", 2.5, trajectory).await.unwrap();
    writer.close().await.unwrap();

    let sample = client.sample("t", 1).await.unwrap().remove(0);
    let info = sample.info();
    assert_eq!((info.key, info.table_size, info.times_sampled), (key, 1, 1));
    assert!((info.priority - 2.5).abs() < f64::EPSILON && (info.probability - 1.0).abs() < f64::EPSILON);
    assert_eq!(sample.table(), "t");
    assert!(sample.inserted_at().is_some());
    let found: Vec<Vec<i64>> =
        sample.columns().unwrap().iter().map(|column| column.to_vec().unwrap()).collect();
    assert_eq!(found, [vec![0, 2, 2, 1], vec![0, 20, 40, 60], vec![700], vec![300, 400, 500]]);
    assert_eq!(sample.columns().unwrap()[2].shape().rank(), 0);
}

#[tokio::test]
async fn items_of_several_tables_share_chunks_and_keep_their_order() {
    let fifo = |name: &str| TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1);
    let server = TestServer::start([fifo("a"), fifo("b")]).await;
    let client = server.client();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3)).unwrap();
    for i in 0..200_i64 {
        writer.append(&leaf(i)).unwrap();
        if i >= 2 {
            let last = writer.history().column("").unwrap().slice(-3..).unwrap();
            writer.create_item("a", 1.0, last.clone()).await.unwrap();
            writer.create_item("b", 1.0, last).await.unwrap();
        }
    }
    writer.close().await.unwrap();
    for table in ["a", "b"] {
        let samples = client.sample(table, 198).await.unwrap();
        let expected: Vec<Vec<i64>> = (2..200).map(|i| vec![i - 2, i - 1, i]).collect();
        assert_eq!(values(&samples), expected);
    }
}

#[tokio::test]
async fn a_failed_append_stores_nothing() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut writer =
        server.client().trajectory_writer(TrajectoryWriterOptions::new(2).chunk_length(2)).unwrap();
    writer.append(&dict(&[("a", leaf(1_i64)), ("b", leaf(1_i64))])).unwrap();
    // The last leaf is invalid. The leaves before it must not be stored, and the new column must not be added.
    let bad = dict(&[("a", leaf(2_i64)), ("aa", leaf(2_i64)), ("b", leaf(2_i32))]);
    let error = writer.append(&bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert_eq!(writer.history().paths().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((writer.history().len(), writer.episode_steps()), (1, 1));
    writer.append(&dict(&[("a", leaf(3_i64)), ("b", leaf(3_i64))])).unwrap();
    let a = writer.history().column("a").unwrap().slice(..).unwrap();
    writer.create_item("t", 1.0, a).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(values(&server.client().sample("t", 1).await.unwrap()), [[1, 3]]);
}

#[tokio::test]
async fn partial_steps_late_columns_and_episodes() {
    let server = TestServer::start([TableConfig::new("t")]).await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(4)).unwrap();
    writer.append_partial(&dict(&[("a", leaf(1_i64))])).unwrap();
    let twice = writer.append_partial(&dict(&[("a", leaf(1_i64))])).unwrap_err();
    assert!(twice.to_string().contains("already set"), "{twice}");
    writer.append(&dict(&[("b", leaf(2_i64))])).unwrap();
    writer.append(&dict(&[("c", leaf(3_i64)), ("a", Nest::None)])).unwrap();
    assert_eq!((writer.episode_steps(), writer.history().len()), (2, 2));

    let missing = writer.history().column("a").unwrap().slice(..).unwrap_err();
    assert!(missing.to_string().contains("nothing was appended"), "{missing}");
    let a = writer.history().column("a").unwrap().step(0).unwrap();
    let c = writer.history().column("c").unwrap().step(1).unwrap();
    writer.create_item("t", 1.0, [a, c]).await.unwrap();

    writer.end_episode(false, LONG).await.unwrap();
    assert_eq!((writer.episode_steps(), writer.history().len()), (0, 2));
    writer.append(&dict(&[("c", leaf(4_i64))])).unwrap();
    let across = writer.history().column("c").unwrap().slice(-2..).unwrap();
    writer.create_item("t", 1.0, across).await.unwrap();
    writer.end_episode(true, LONG).await.unwrap();
    assert!(writer.history().is_empty());
    assert!(writer.history().column("c").unwrap().slice(-1..).is_err());
    writer.close().await.unwrap();
}

#[tokio::test]
async fn insert_and_batches() {
    let server =
        TestServer::start([TableConfig::new("t").sampler(SelectorKind::Fifo).max_times_sampled(1)]).await;
    let client = server.client();
    for i in 0..5_i64 {
        client.insert(&leaf(i), &[("t", 1.0)]).await.unwrap();
        let info = client.server_info().await.unwrap();
        assert_eq!(info.table("t").unwrap().current_size, u64::try_from(i).unwrap() + 1);
    }
    let options = SamplerOptions::default().max_samples(5).max_in_flight_samples_per_worker(2);
    let mut sampler = client.sampler("t", options).unwrap();
    assert_eq!(values(&sampler.next_batch(3).await.unwrap()), [[0], [1], [2]]);
    assert_eq!(values(&sampler.next_batch(3).await.unwrap()), [[3], [4]]);
    assert!(sampler.next().await.is_none());
}

#[tokio::test]
async fn priorities_deletes_and_reset() {
    let server = TestServer::start([TableConfig::new("t").sampler(SelectorKind::MaxHeap)]).await;
    let client = server.client();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
    let mut keys = Vec::new();
    for i in 0..3_i64 {
        writer.append(&leaf(i)).unwrap();
        let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
        keys.push(writer.create_item("t", 1.0, newest).await.unwrap());
    }
    writer.close().await.unwrap();
    client.mutate_priorities("t", &[(keys[1], 5.0), (12345, 1.0)], &[keys[0]]).await.unwrap();
    assert_eq!(client.sample("t", 1).await.unwrap()[0].info().key, keys[1]);
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 2);
    client.reset("t").await.unwrap();
    assert_eq!(client.server_info().await.unwrap().table("t").unwrap().current_size, 0);
    let status = client.status().await.unwrap();
    assert_eq!(status.tables.len(), 1);
}

#[tokio::test]
async fn items_are_checked_against_the_signature() {
    let spec = |dtype, shape| Nest::Leaf(TensorSpec::new("", dtype, Some(shape)));
    let signature: Signature = Nest::Dict(
        [("x".to_owned(), spec(DType::Int64, vec![None])), ("y".to_owned(), spec(DType::Int64, vec![]))]
            .into(),
    );
    let server = TestServer::start([TableConfig::new("t").signature(signature)]).await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
    writer.append(&dict(&[("x", leaf(1_i64)), ("y", leaf(2_i64)), ("z", leaf(0.5_f32))])).unwrap();
    let take = |path| writer.history().column(path).unwrap();
    let (x, y, z) = (take("x"), take("y"), take("z"));
    let good = [x.slice(..).unwrap(), y.step(-1).unwrap()];
    let bad = [
        vec![x.slice(..).unwrap()],
        vec![x.slice(..).unwrap(), y.slice(..).unwrap()],
        vec![x.slice(..).unwrap(), z.step(-1).unwrap()],
    ];
    for columns in bad {
        let error = writer.create_item("t", 1.0, columns).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("signature"), "{error}");
    }
    writer.create_item("t", 1.0, good).await.unwrap();
    writer.close().await.unwrap();
}
