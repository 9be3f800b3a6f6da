//! Tests how servers start and stop.

#![expect(clippy::unwrap_used, reason = "a test all over")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relive_client::{Client, Nest, Tensor};
use relive_host::{Checkpoints, Endpoint, ErrorKind, Format, Server, ServerBuilder};
use relive_server::access::Role;
use relive_table::{RateLimiterConfig, SavedCheckpoint, TableChange, TableConfig};
use tokio::net::TcpListener;

fn builder() -> ServerBuilder {
    Server::builder().table(TableConfig::queue("steps", 100))
}

fn at(folder: &Path) -> Checkpoints {
    Checkpoints::at(folder.to_str().unwrap())
}

async fn insert(client: &Client) {
    client.insert(&Nest::Leaf(Tensor::scalar(1.0_f32)), &[("steps", 1.0)]).await.unwrap();
}

fn items(server: &Server) -> u64 {
    server.engine().table("steps").unwrap().info().current_size
}

fn kind<T>(result: relive_host::Result<T>) -> ErrorKind {
    result.err().unwrap().kind()
}

#[tokio::test]
async fn a_server_resumes_from_the_final_checkpoint_of_its_predecessor() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder().checkpoints(at(folder.path())).bind(":0").await.unwrap();
    insert(&Client::connect(server.address()).unwrap()).await;
    let other = builder().checkpoints(at(folder.path())).bind(":0").await;
    assert_eq!(kind(other), ErrorKind::InUse);
    server.stop().await.unwrap();
    let server = builder().checkpoints(at(folder.path())).bind(":0").await.unwrap();
    assert_eq!(items(&server), 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_without_a_port_writes_its_last_checkpoint_too_and_can_get_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder().checkpoints(at(folder.path())).in_process().await.unwrap();
    assert_eq!(server.address().port(), 0);
    insert(&Client::in_process(server.engine().clone())).await;
    server.stop().await.unwrap();
    let mut server = builder().checkpoints(at(folder.path())).in_process().await.unwrap();
    let bound = Endpoint::new(":0").token("clients", Role::Read, "a-token-of-16-chars").bind().await.unwrap();
    server.listen(bound).unwrap();
    let options = relive_client::ClientOptions::default().token("a-token-of-16-chars");
    let client = Client::connect_with(server.address(), options).unwrap();
    assert_eq!(client.server_info().await.unwrap().table("steps").unwrap().current_size, 1);
    let again = server.listen(Endpoint::new(":0").bind().await.unwrap()).unwrap_err();
    assert!(again.to_string().contains("already listening at 127.0.0.1:"), "{again}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn errors_are_reported_before_loading_or_locking() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let builder = || builder().checkpoints(at(&checkpoints));
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    assert_eq!(kind(builder().bind(taken.local_addr().unwrap()).await), ErrorKind::Bind);
    assert_eq!(kind(builder().bind("nowhere").await), ErrorKind::Bind);
    let guarded = Endpoint::new(":0").token_file(folder.path().join("tokens"));
    assert_eq!(kind(builder().bind(guarded).await), ErrorKind::Security);
    let guarded = Endpoint::new(":0").tls_files("no.pem", "no.pem", None);
    assert_eq!(kind(builder().bind(guarded).await), ErrorKind::Security);
    let invalid = builder().table(TableConfig::new("none").max_size(0)).bind(":0").await;
    assert_eq!(kind(invalid), ErrorKind::Tables);
    let often = at(&checkpoints).every(Duration::from_millis(999));
    assert_eq!(kind(self::builder().checkpoints(often).bind(":0").await), ErrorKind::Tables);
    assert_eq!(kind(builder().spill(folder.path()).bind(":0").await), ErrorKind::Memory);
    assert!(!checkpoints.exists());
    assert_eq!(kind(Server::builder().bind(":0").await), ErrorKind::Tables);
}

#[tokio::test]
async fn damage_is_reported_with_advice_and_converts_to_a_client_error() {
    let folder = tempfile::tempdir().unwrap();
    let reverb = at(folder.path()).format(Format::Reverb);
    builder().checkpoints(reverb).bind(":0").await.unwrap().stop().await.unwrap();
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(path.join("tables.tfrecord"), "damage").unwrap();
    let error = builder().checkpoints(at(folder.path())).bind(":0").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let text = error.to_string();
    assert!(text.starts_with("cannot load the newest checkpoint: "), "{text}");
    assert!(text.contains("; Checkpoints::salvage loads the intact part; there is no older one"), "{text}");
    let error = relive_client::Error::from(error);
    assert_eq!((error.kind(), error.to_string()), (relive_client::ErrorKind::DataLoss, text));
}

#[tokio::test]
async fn a_checkpoint_of_other_tables_is_refused_or_loads_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    builder().checkpoints(at(folder.path())).bind(":0").await.unwrap().stop().await.unwrap();
    let other = || Server::builder().table(TableConfig::new("other"));
    let error = other().checkpoints(at(folder.path())).bind(":0").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tables);
    assert!(
        error.to_string().ends_with(
            "; Checkpoints::other_tables restores such tables with their rules from the checkpoint"
        )
    );
    let server = other().checkpoints(at(folder.path()).other_tables(true)).bind(":0").await.unwrap();
    assert!(server.engine().table("steps").is_ok() && server.engine().table("other").is_ok());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn other_tables_may_have_rules_under_which_nothing_is_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = RateLimiterConfig::min_size(10).unwrap();
    let odd = TableConfig::new("odd").max_size(5).rate_limiter(limiter).allow_never_sampled(true);
    let usual = TableConfig::new("usual").max_size(100).rate_limiter(limiter);
    let before = builder().table(odd).table(usual).checkpoints(at(folder.path())).bind(":0").await.unwrap();
    before.stop().await.unwrap();
    let server = builder().checkpoints(at(folder.path()).other_tables(true)).bind(":0").await.unwrap();
    assert_eq!(server.engine().table("odd").unwrap().config().rate_limiter.min_size_to_sample, 10);
    let shrink =
        |table| server.engine().change_table(table, &TableChange::new().max_size(4), &Arc::from("operator"));
    shrink("odd").unwrap();
    let error = shrink("usual").unwrap_err();
    assert!(error.to_string().contains("could never be sampled"), "{error}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn checkpoints_without_a_place_are_refused() {
    let requested = Checkpoints::default().every(Duration::from_secs(60));
    let error = builder().checkpoints(requested).bind(":0").await.unwrap_err();
    assert!(error.to_string().contains("every requires a checkpointer"), "{error}");
}

#[tokio::test]
async fn settings_are_checked_before_a_checkpoint_is_loaded() {
    let no_place = || at(Path::new("/proc/no/such/place")).load("/proc/no/such/checkpoint");
    let twice = builder().table(TableConfig::new("twice")).table(TableConfig::new("twice"));
    let error = twice.checkpoints(no_place()).bind(":0").await.unwrap_err();
    assert!(error.to_string().contains("twice"), "{error}");
    let error = builder().max_bytes(0).checkpoints(no_place()).bind(":0").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
}

#[tokio::test]
async fn a_custom_function_can_write_checkpoints() {
    let checkpoints = Checkpoints::default().saved_by(|snapshot, _| {
        let location = format!("{} tables", snapshot.tables.len());
        Ok(SavedCheckpoint { location, written_bytes: 0, total_bytes: 0 })
    });
    let server = builder().checkpoints(checkpoints).bind(":0").await.unwrap();
    let engine = server.engine().clone();
    server.stop().await.unwrap();
    let last = engine.checkpoint_status().last.expect("one is written at shutdown");
    assert_eq!(last.saved().expect("it was written").location, "1 tables");
}

#[tokio::test]
async fn a_failed_final_checkpoint_is_returned_by_stop() {
    let checkpoints = Checkpoints::default()
        .saved_by(|_, _| Err(relive_engine::EngineError::checkpoint(std::io::Error::other("no room"))));
    let server = builder().checkpoints(checkpoints).bind(":0").await.unwrap();
    let ended = server.ended();
    let error = server.stop().await.unwrap_err();
    ended.await;
    assert_eq!(error.kind(), ErrorKind::LastCheckpoint);
    assert!(error.to_string().ends_with("no room; earlier checkpoints remain valid"), "{error}");
}

#[tokio::test]
async fn a_dropped_server_releases_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoints, spill) = (folder.path().join("checkpoints"), folder.path().join("spill"));
    let begin = || builder().checkpoints(at(&checkpoints)).max_bytes(1 << 20).spill(&spill);
    let server = begin().bind(":0").await.unwrap();
    assert_eq!(kind(begin().bind(":0").await), ErrorKind::InUse);
    let ended = server.ended();
    drop(server);
    ended.await;
    begin().bind(":0").await.unwrap().stop().await.unwrap();
}
