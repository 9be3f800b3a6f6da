//! Checkpoint and CheckpointStatus.

use std::sync::{Mutex, mpsc};

use crate::common::{self, DUE, TestServer};
use relive_engine::{Engine, EngineError};
use relive_server::ServerOptions;
use relive_table::{
    CheckpointPhase, CheckpointProgress, CheckpointStatus, CheckpointTrigger, SavedCheckpoint, Snapshot,
    TableConfig,
};
use relive_wire::checkpoint_status;
use relive_wire::reverb::{CheckpointRequest, ServerInfoRequest};
use relive_wire::v1::replay_service_client::ReplayServiceClient;
use relive_wire::v1::{CheckpointStatusRequest, DescribeRequest};
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
async fn a_connection_is_served_while_a_checkpoint_is_written() {
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
async fn a_failure_is_reported_and_the_next_checkpoint_can_succeed() {
    let failures = Mutex::new(vec![std::io::Error::other("disk full")]);
    let server = server(move |_, _| match failures.lock().unwrap().pop() {
        Some(error) => Err(EngineError::checkpoint(error)),
        None => Ok(saved("/done")),
    })
    .await;
    let mut client = server.client().await;
    let status = client.checkpoint(CheckpointRequest {}).await.unwrap_err();
    let expected = "the checkpoint was not written: disk full";
    assert_eq!((status.code(), status.message()), (Code::Internal, expected));
    let answer = client.checkpoint(CheckpointRequest {}).await.unwrap().into_inner();
    assert_eq!(answer.checkpoint_path, "/done");
    server.stop().await;
}

#[tokio::test]
async fn a_panicking_checkpointer_fails_only_one_call() {
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

/// A checkpointer that signals when it begins, and writes when the test permits it.
struct HeldCheckpointer {
    begun: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

impl HeldCheckpointer {
    async fn server() -> (TestServer, HeldCheckpointer) {
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (begin, released) = (Mutex::new(begin), Mutex::new(released));
        let server = server(move |_, progress| {
            progress.expect(8, 80);
            begin.lock().expect("no other panics").send(()).expect("the test listens");
            released.lock().expect("no other panics").recv_timeout(DUE).expect("the test lets it go on");
            progress.advance(8, 80);
            Ok(saved("/held"))
        })
        .await;
        (server, HeldCheckpointer { begun, release })
    }

    async fn begun(self) -> HeldCheckpointer {
        let wait = move || self.begun.recv_timeout(DUE).map(|()| self);
        tokio::task::spawn_blocking(wait).await.expect("it does not panic").expect("a checkpoint begins")
    }
}

async fn status(server: &TestServer) -> CheckpointStatus {
    let mut client = ReplayServiceClient::new(server.channel().await);
    let actual = client
        .checkpoint_status(CheckpointStatusRequest {})
        .await
        .expect("it is answered")
        .into_inner()
        .status;
    let described =
        client.describe(DescribeRequest {}).await.expect("it is answered").into_inner().checkpoints;
    let actual = checkpoint_status::from_wire(actual.expect("the response has a status"))
        .expect("the status is valid");
    let described = checkpoint_status::from_wire(described.expect("the response has a status"))
        .expect("the status is valid");
    assert_eq!((&described.last, described.queued), (&actual.last, actual.queued));
    actual
}

#[tokio::test]
async fn the_status_reports_the_running_and_the_last_checkpoint() {
    let (server, held) = HeldCheckpointer::server().await;
    let before = status(&server).await;
    assert!(before.enabled && before.running.is_none() && before.last.is_none());
    let mut client = server.client().await;
    let call = tokio::spawn(async move { client.checkpoint(CheckpointRequest {}).await });
    let held = held.begun().await;
    let running = status(&server).await.running.expect("it runs");
    assert_eq!((running.trigger, running.phase), (CheckpointTrigger::Request, CheckpointPhase::Writing));
    assert_eq!((running.counts.items_total, running.counts.items_done), (8, 0));
    held.release.send(()).unwrap();
    call.await.unwrap().unwrap();
    let after = status(&server).await;
    let last = after.last.as_ref().expect("it has ended");
    assert_eq!((last.saved(), last.began_at), (Some(&saved("/held")), running.began_at));
    assert_eq!(after.last_saved, after.last);
    server.stop().await;
}

#[tokio::test]
async fn a_checkpoint_continues_after_its_requester_disconnects() {
    let (server, held) = HeldCheckpointer::server().await;
    let mut client = server.client().await;
    let call = tokio::spawn(async move { client.checkpoint(CheckpointRequest {}).await });
    let held = held.begun().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    held.release.send(()).unwrap();
    let mut next = server.client().await;
    let next = tokio::spawn(async move { next.checkpoint(CheckpointRequest {}).await });
    let held = held.begun().await;
    let last = status(&server).await.last.expect("the first has ended");
    assert_eq!(last.saved(), Some(&saved("/held")));
    held.release.send(()).unwrap();
    next.await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_server_writes_its_last_checkpoint_when_its_tables_are_closed() {
    let save = |snapshot: Snapshot, _: &CheckpointProgress| {
        Ok(saved(format!("{} items", snapshot.tables[0].items.len())))
    };
    let engine = Engine::builder().table(TableConfig::new("t")).checkpointer(save).checkpoint_at_close(true);
    let server = TestServer::of(engine.build().unwrap(), ServerOptions::default().workers(1)).await;
    let mut client = server.client().await;
    let mut inserter = common::Inserter::open(&mut client).await;
    inserter.send(common::step("t", 1));
    inserter.confirmed([1]).await;
    let engine = server.engine.clone();
    server.stop().await;
    let last = engine.checkpoint_status().last.expect("it was written");
    assert_eq!((last.saved(), last.trigger), (Some(&saved("1 items")), CheckpointTrigger::Close));
}

#[tokio::test]
async fn a_failed_final_checkpoint_is_the_result_of_the_server() {
    let save = |_: Snapshot, _: &CheckpointProgress| {
        Err(EngineError::checkpoint(std::io::Error::other("disk full")))
    };
    let engine = Engine::builder().table(TableConfig::new("t")).checkpointer(save).checkpoint_at_close(true);
    let server = TestServer::of(engine.build().unwrap(), ServerOptions::default().workers(1)).await;
    let ended = server.end().await.unwrap_err();
    assert_eq!(ended.to_string(), "the checkpoint was not written: disk full");
}
