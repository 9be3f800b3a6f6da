//! The Checkpoint RPC.

#[allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    reason = "shared by the test binaries, each of which uses a part"
)]
mod common;

use std::sync::{Mutex, mpsc};

use common::{DUE, TestServer};
use relive_engine::{Engine, EngineError};
use relive_server::ServerOptions;
use relive_table::{CheckpointProgress, SavedCheckpoint, Snapshot, TableConfig};
use relive_wire::reverb::{CheckpointRequest, ServerInfoRequest};
use tonic::Code;

async fn server(
    save: impl Fn(Snapshot, &CheckpointProgress) -> Result<SavedCheckpoint, EngineError> + Send + Sync + 'static,
) -> TestServer {
    let engine = Engine::builder().table(TableConfig::new("t")).checkpointer(save).build();
    TestServer::of(engine.expect("the table is valid"), ServerOptions::default().workers(1)).await
}

fn saved(location: impl Into<String>) -> SavedCheckpoint {
    SavedCheckpoint { location: location.into(), written_bytes: 1, total_bytes: 1 }
}

#[tokio::test]
async fn a_connection_goes_on_while_a_checkpoint_is_written() {
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (begin, released) = (Mutex::new(begin), Mutex::new(released));
    let server = server(move |snapshot, _| {
        begin.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv_timeout(DUE).expect("other calls are answered meanwhile");
        Ok(saved(format!("/checkpoints/{}", snapshot.tables[0].config.name)))
    })
    .await;
    let mut client = server.client().await;
    let mut same = client.clone();
    let call = tokio::spawn(async move { same.checkpoint(CheckpointRequest {}).await });
    tokio::task::spawn_blocking(move || begun.recv_timeout(DUE)).await.unwrap().unwrap();
    let info = tokio::time::timeout(DUE, client.server_info(ServerInfoRequest {})).await;
    assert_eq!(info.unwrap().unwrap().into_inner().table_info.len(), 1);
    release.send(()).unwrap();
    let answer = call.await.unwrap().unwrap().into_inner();
    assert_eq!(answer.checkpoint_path, "/checkpoints/t");
    server.stop().await;
}

#[tokio::test]
async fn a_failure_is_told_and_the_next_checkpoint_may_work() {
    let failures = Mutex::new(vec![std::io::Error::other("disk full")]);
    let server = server(move |_, _| match failures.lock().unwrap().pop() {
        Some(error) => Err(EngineError::checkpoint(error)),
        None => Ok(saved("/done")),
    })
    .await;
    let mut client = server.client().await;
    let status = client.checkpoint(CheckpointRequest {}).await.unwrap_err();
    let told = "the checkpoint was not written: disk full";
    assert_eq!((status.code(), status.message()), (Code::Internal, told));
    let answer = client.checkpoint(CheckpointRequest {}).await.unwrap().into_inner();
    assert_eq!(answer.checkpoint_path, "/done");
    server.stop().await;
}

#[tokio::test]
async fn a_checkpointer_that_panics_ends_one_call_only() {
    let server = server(|_, _| panic!("a bug in a checkpointer")).await;
    let mut client = server.client().await;
    for _ in 0..2 {
        let status = client.checkpoint(CheckpointRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("a bug in a checkpointer"), "{status}");
    }
    assert!(client.server_info(ServerInfoRequest {}).await.is_ok());
    server.stop().await;
}
