//! Tests that calls can be spawned, because their futures can be sent to other threads.

use relive::{Client, Nest, Result, StructuredWriter, Tensor, TrajectoryWriter};

fn can_be_spawned<T: Send>(future: T) -> T {
    future
}

/// Compiles if and only if every future is `Send`; the calls themselves are tested elsewhere.
async fn every_call(
    client: Client,
    mut writer: TrajectoryWriter,
    mut structured: StructuredWriter,
    step: Nest<Tensor>,
) -> Result<()> {
    can_be_spawned(client.server_info()).await?;
    can_be_spawned(client.status()).await?;
    can_be_spawned(client.reset("t")).await?;
    can_be_spawned(client.mutate_priorities("t", &[(1, 2.0)], &[3])).await?;
    can_be_spawned(client.insert(&step, &[("t", 1.0)])).await?;
    can_be_spawned(client.sample("t", 1)).await?;
    can_be_spawned(client.checkpoint()).await?;
    writer.append(&step)?;
    let newest = writer.history().column_at(0)?.slice(-1..)?;
    can_be_spawned(writer.create_item("t", 1.0, [newest])).await?;
    can_be_spawned(structured.append(&step)).await?;
    can_be_spawned(writer.close()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_on_a_spawned_task() {
    let client = Client::connect("127.0.0.1:1").expect("connecting is lazy");
    let call = async move { client.with_timeout(std::time::Duration::from_millis(50)).server_info().await };
    let error = tokio::spawn(call).await.expect("no panic").expect_err("nobody listens on port 1");
    assert!(error.is_timeout(), "{error}");
    let _ = every_call;
}
