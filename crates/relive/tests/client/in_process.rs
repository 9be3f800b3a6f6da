//! Tests a client for tables in the same process.

use relive::{
    BatchOptions, Client, ErrorKind, Nest, SamplerOptions, SelectorKind, SourceColumn, StructuredConfig,
    TableConfig, Tensor, TrajectoryWriterOptions, Transport, Windows, blocking,
};
use relive_engine::Engine;
use relive_table::SavedCheckpoint;

use crate::common::LONG;

fn engine() -> Engine {
    Engine::builder().table(TableConfig::new("b")).table(TableConfig::new("a")).build().unwrap()
}

#[tokio::test]
async fn unary_calls_work_in_process() {
    let engine = engine();
    let client = Client::in_process(engine.clone());
    assert_eq!(client.transport(), Transport::InProcess);
    assert_eq!((client.address(), client.transport().to_string().as_str()), ("in-process", "in-process"));

    let info = client.server_info().await.unwrap();
    assert_eq!(info.tables.iter().map(|table| table.config.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(info.table("a").unwrap().config.sampler, SelectorKind::Uniform);
    let other = Client::in_process(engine).server_info().await.unwrap();
    assert_eq!(info.state_id, other.state_id);

    let status = client.status().await.unwrap();
    assert_eq!(status.table("b").unwrap().info.current_size, 0);
    client.mutate_priorities("a", &[(1, 1.0)], &[2]).await.unwrap();
    client.reset("a").await.unwrap();
    assert_eq!(client.checkpoint().await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_checkpoint_of_the_engine() {
    let engine = Engine::builder()
        .table(TableConfig::new("a"))
        .checkpointer(|snapshot, _| {
            let location = format!("{} tables", snapshot.tables.len());
            Ok(SavedCheckpoint { location, written_bytes: 0, total_bytes: 0 })
        })
        .build()
        .unwrap();
    assert_eq!(Client::in_process(engine).checkpoint().await.unwrap(), "1 tables");
}

#[tokio::test]
async fn unknown_and_closed_tables() {
    let engine = engine();
    let client = Client::in_process(engine.clone());
    for error in [client.reset("c").await.unwrap_err(), client.delete_items("c", &[1]).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("Priority table c was not found"), "{error}");
    }
    engine.close();
    let error = client.reset("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
}

#[test]
fn the_blocking_client_works_in_process() {
    let engine = engine();
    let client = blocking::Client::in_process(engine.clone()).unwrap();
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3)).unwrap();
    writer.append_sequence(&Nest::Leaf(Tensor::from_slice(&[0_i64, 1, 2], [3]).unwrap())).unwrap();
    let newest = writer.history().column_at(0).unwrap().step(-1).unwrap();
    writer.create_item("a", 1.0, newest.clone()).unwrap();
    writer.create_items("a", &[1.0], &[newest.into()]).unwrap();
    writer.create_window_items("a", &[1.0], Windows::of(3, &[-1])).unwrap();
    writer.close().unwrap();
    assert_eq!(writer.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);

    let config = StructuredConfig::new("b", Nest::Leaf(SourceColumn::at(0).step(-1).unwrap()));
    let mut writer = client.structured_writer(vec![config]).unwrap();
    writer.append(&Nest::Leaf(Tensor::scalar(1_i64))).unwrap();
    writer.flush_until(0, LONG).unwrap();
    assert_eq!((writer.episode_steps(), writer.pending_items()), (1, 0));
    writer.close_with_timeout(LONG).unwrap();
    let sizes: Vec<u64> = engine.tables().iter().map(|table| table.info().current_size).collect();
    assert_eq!(sizes, [1, 3]);

    let first = client.items("a", 0, 2).unwrap();
    let rest = client.items("a", first.next.unwrap(), 2).unwrap();
    assert_eq!((first.items.len(), rest.items.len(), rest.next), (2, 1, None));
    let keys = [rest.items[0].key, u64::MAX];
    let found = client.get_items("a", &keys).unwrap();
    assert_eq!(
        found[0].as_ref().unwrap().columns().unwrap()[0],
        Tensor::from_slice(&[0_i64, 1, 2], [3]).unwrap()
    );
    assert!(found[1].is_none());
    assert_eq!(client.items("c", 0, 2).unwrap_err().kind(), ErrorKind::NotFound);

    let mut sampler = client.sampler("a", SamplerOptions::default().max_samples(5)).unwrap();
    assert_eq!(sampler.next_batch_with_timeout(3, LONG).unwrap().len(), 3);
    assert_eq!((sampler.next_batch_with_timeout(3, LONG).unwrap().len(), sampler.table()), (2, "a"));
    assert_eq!(client.batches("b", BatchOptions::new(1)).unwrap().table(), "b");
}
