//! Creates items from patterns instead of code: one item at every second step, and one at the end of each episode.
//!
//! ```console
//! $ cargo run -p relive --example structured_writer
//! ```

use std::time::Duration;

use relive::{
    Client, Condition, Nest, SelectorKind, Server, SourceColumn, StructuredConfig, TableConfig, Tensor,
};

const TIMEOUT: Duration = Duration::from_secs(5);

#[expect(clippy::print_stdout, reason = "an example shows what it found")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let in_order = |name: &str| TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1);
    let server =
        Server::builder().table(in_order("pairs")).table(in_order("ends")).bind("127.0.0.1:0").await?;
    let client = Client::connect(server.address())?;

    let step_number = SourceColumn::at(0);
    let mut writer = client.structured_writer(vec![
        StructuredConfig::new("pairs", Nest::Leaf(step_number.slice(-2..)?))
            .condition(Condition::step_index().modulo(2, 1)),
        StructuredConfig::new("ends", Nest::Leaf(step_number.step(-1)?))
            .condition(Condition::is_end_episode()),
    ])?;
    for steps in [4_i64, 7] {
        for step in 0..steps {
            writer.append(&Nest::Leaf(Tensor::scalar(step))).await?;
        }
        writer.end_episode(true, TIMEOUT).await?;
    }
    writer.close().await?;

    for (table, items) in [("pairs", 5), ("ends", 2)] {
        for sample in client.sample(table, items).await? {
            println!("{table}: {:?}", sample.columns()?[0].to_vec::<i64>()?);
        }
    }
    server.stop().await?;
    Ok(())
}
