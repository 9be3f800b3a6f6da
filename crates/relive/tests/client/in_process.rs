//! A client of tables in the same process.

use relive::engine::Engine;
use relive::{Client, ErrorKind, SelectorKind, TableConfig, Transport};

fn engine() -> Engine {
    Engine::builder().table(TableConfig::new("b")).table(TableConfig::new("a")).build().unwrap()
}

#[tokio::test]
async fn calls_of_one_answer() {
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
    assert_eq!(client.checkpoint().await.unwrap_err().kind(), ErrorKind::Unimplemented);
}

#[tokio::test]
async fn unknown_and_closed_tables() {
    let engine = engine();
    let client = Client::in_process(engine.clone());
    for error in
        [client.reset("c").await.unwrap_err(), client.mutate_priorities("c", &[], &[1]).await.unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("Priority table c was not found"), "{error}");
    }
    engine.close();
    let error = client.reset("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("RateLimiter has been cancelled"), "{error}");
}
