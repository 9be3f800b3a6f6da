//! An actor writes n-step trajectories and a learner samples them, so that both halves of experience replay run in one
//! process.
//!
//! ```console
//! $ cargo run -p relive --example write_and_sample
//! ```

use relive::{Client, Nest, SamplerOptions, Server, TableConfig, Tensor, TrajectoryWriterOptions};

const STEPS_PER_ITEM: i64 = 3;

#[expect(clippy::print_stdout, reason = "an example shows what it found")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().table(TableConfig::new("replay")).bind("127.0.0.1:0").await?;
    let client = Client::connect(server.address())?;

    // Keeping three steps is enough for items with three steps.
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(3))?;
    for step in 0..20_u8 {
        writer.append(&Nest::dict([
            ("observation", Tensor::from_slice(&[f32::from(step); 4], [4])?),
            ("reward", Tensor::scalar(f32::from(step) / 10.0)),
        ]))?;
        if writer.episode_steps() >= 3 {
            let history = writer.history();
            let observation = history.column("observation")?.slice(-STEPS_PER_ITEM..)?;
            let reward = history.column("reward")?.step(-1)?;
            writer.create_item("replay", 1.0, [observation, reward]).await?;
        }
    }
    writer.close().await?;

    let mut sampler = client.sampler("replay", SamplerOptions::default().max_samples(5))?;
    while let Some(sample) = sampler.next().await {
        let sample = sample?;
        let columns = sample.columns()?;
        println!(
            "item {:016x}: observations {} and reward {:?}, one of {}",
            sample.info().key,
            columns[0].shape(),
            columns[1].to_vec::<f32>()?,
            sample.info().table_size,
        );
    }
    server.stop().await?;
    Ok(())
}
