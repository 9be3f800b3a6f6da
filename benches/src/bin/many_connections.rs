//! Many clients at once, each with a connection of its own, inserting and sampling slowly.
//!
//! ```console
//! $ relive serve --config examples/replay.toml &
//! $ cargo run --release -p relive-benches --bin many_connections -- localhost:8000 weights 2000 60
//! ```
//!
//! Arguments: address, table, clients, seconds. Every client inserts one item of 400 bytes and samples one, a second
//! after the other. Prints what was done, and each error.

use std::rc::Rc;
use std::time::{Duration, Instant};

use relive_client::{Client, Nest, Result, SamplerOptions, Tensor, TrajectoryWriterOptions};
use tokio::task::LocalSet;

const PAUSE: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Done {
    inserted: u64,
    sampled: u64,
}

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, table, clients, seconds] = args.as_slice() else {
        return Err("usage: many_connections ADDRESS TABLE CLIENTS SECONDS".into());
    };
    let (address, table): (Rc<str>, Rc<str>) = (address.as_str().into(), table.as_str().into());
    let (clients, seconds): (u32, u64) = (clients.parse()?, seconds.parse()?);
    let until = Instant::now() + Duration::from_secs(seconds);
    let tasks = LocalSet::new();
    let spawn =
        |number| tasks.spawn_local(client(Rc::clone(&address), Rc::clone(&table), number, clients, until));
    let running: Vec<_> = (0..clients).map(spawn).collect();
    let (mut total, mut errors) = (Done::default(), 0);
    tasks
        .run_until(async {
            for task in running {
                match task.await {
                    Ok(Ok(done)) => {
                        total.inserted += done.inserted;
                        total.sampled += done.sampled;
                    }
                    Ok(Err(error)) => {
                        errors += 1;
                        println!("error: {error}");
                    }
                    Err(error) => {
                        errors += 1;
                        println!("error: {error}");
                    }
                }
            }
        })
        .await;
    println!(
        "{clients} clients, {seconds} s: {} inserted, {} sampled, {errors} errors",
        total.inserted, total.sampled
    );
    Ok(())
}

/// One client. They start spread over the first second, so that the load is even.
async fn client(address: Rc<str>, table: Rc<str>, number: u32, clients: u32, until: Instant) -> Result<Done> {
    tokio::time::sleep(PAUSE * number / clients).await;
    let client = Client::connect(&address)?;
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
    let mut sampler =
        client.sampler(&table, SamplerOptions::default().max_in_flight_samples_per_worker(1))?;
    let step = Nest::List(vec![Nest::Leaf(
        Tensor::from_slice(&[f32::from_bits(number); 100], [100]).expect("100 values"),
    )]);
    let mut done = Done::default();
    while Instant::now() < until {
        writer.append(&step)?;
        let newest = writer.history().column_at(0)?.slice(-1..)?;
        writer.create_item(&table, 1.0, [newest]).await?;
        writer.flush(LIMIT).await?;
        done.inserted += 1;
        if let Some(sample) = sampler.next_with_timeout(LIMIT).await {
            sample?.columns()?;
            done.sampled += 1;
        }
        tokio::time::sleep(PAUSE).await;
    }
    writer.close().await?;
    Ok(done)
}
