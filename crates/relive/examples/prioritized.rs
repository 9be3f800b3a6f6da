//! Prioritized replay: items with a large error are sampled more often, and the learner updates their priorities.
//!
//! ```console
//! $ cargo run -p relive --example prioritized
//! ```

use std::collections::BTreeMap;

use relive::{Client, Nest, SelectorKind, Server, TableConfig, Tensor};

#[expect(clippy::print_stdout, reason = "an example shows what it found")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let table = TableConfig::new("replay").sampler(SelectorKind::Prioritized { exponent: 1.0 });
    let server = Server::builder().table(table).bind("127.0.0.1:0").await?;
    let client = Client::connect(server.address())?;

    for error in [1.0_f64, 2.0, 7.0] {
        client.insert(&Nest::Leaf(Tensor::scalar(error)), &[("replay", error)]).await?;
    }
    println!("sampled by priority: {:?}", count(&client).await?);

    // The items that the learner has seen now have smaller errors.
    let updates: Vec<(u64, f64)> =
        client.sample("replay", 100).await?.iter().map(|sample| (sample.info().key, 1.0)).collect();
    client.update_priorities("replay", &updates).await?;
    println!("after the update:    {:?}", count(&client).await?);
    server.stop().await?;
    Ok(())
}

/// Counts how often each item, identified by its first priority, is among 1,000 samples.
async fn count(client: &Client) -> Result<BTreeMap<String, u32>, Box<dyn std::error::Error>> {
    let mut counts = BTreeMap::new();
    for sample in client.sample("replay", 1_000).await? {
        let error = sample.columns()?[0].to_vec::<f64>()?;
        *counts.entry(format!("{error:?}")).or_default() += 1;
    }
    Ok(counts)
}
