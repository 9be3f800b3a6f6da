//! Runs many concurrent clients, each with its own connection, which insert and sample slowly.
//!
//! ```console
//! $ relive serve --config examples/replay.toml &
//! $ cargo run --release -p relive-benches --bin many_connections -- localhost:8000 weights 2000 60
//! ```
//!
//! Arguments: address, table, number of clients, seconds, and the number of additional clients that send one request
//! and are then idle (default 0). Each active client inserts an item of 400 bytes and, a second later, samples one.
//! Prints the number of operations, the latency of the samples, and each error.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use relive_client::{Client, Nest, Result, Tensor, TrajectoryWriterOptions};
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
    let [address, table, clients, seconds, idle @ ..] = args.as_slice() else {
        return Err("usage: many_connections ADDRESS TABLE CLIENTS SECONDS [IDLE]".into());
    };
    let idle: u32 = idle.first().map_or(Ok(0), |text| text.parse())?;
    let (address, table): (Rc<str>, Rc<str>) = (address.as_str().into(), table.as_str().into());
    let (clients, seconds): (u32, u64) = (clients.parse()?, seconds.parse()?);
    let silent = connect(&address, idle).await?;
    println!("{} clients that do nothing are connected", silent.len());
    let until = Instant::now() + Duration::from_secs(seconds);
    let tasks = LocalSet::new();
    let latency = Rc::new(RefCell::new(Histogram::new(3)?));
    let spawn = |number| {
        let (address, table, latency) = (Rc::clone(&address), Rc::clone(&table), Rc::clone(&latency));
        tasks.spawn_local(client(address, table, number, clients, until, latency))
    };
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
    let latency = latency.borrow();
    let [median, most, max] =
        [latency.value_at_quantile(0.5), latency.value_at_quantile(0.99), latency.max()]
            .map(|micros| micros as f64 / 1e3);
    println!("sample: median {median:.1} ms, 99 % {most:.1} ms, longest {max:.1} ms");
    drop(silent);
    Ok(())
}

/// Returns clients that have sent one request and stay connected.
async fn connect(address: &str, clients: u32) -> Result<Vec<Client>> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        let client = Client::connect(address)?;
        client.server_info().await?;
        connected.push(client);
    }
    Ok(connected)
}

/// Runs one client. The starts of all clients are spread over the first second, so that the load is even.
async fn client(
    address: Rc<str>,
    table: Rc<str>,
    number: u32,
    clients: u32,
    until: Instant,
    latency: Rc<RefCell<Histogram<u64>>>,
) -> Result<Done> {
    tokio::time::sleep(PAUSE * number / clients).await;
    let client = Client::connect(&address)?;
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
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
        let asked = Instant::now();
        for sample in client.with_timeout(LIMIT).sample(&table, 1).await? {
            sample.columns()?;
            done.sampled += 1;
        }
        // A histogram that resizes itself accepts any value.
        let _ = latency.borrow_mut().record(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        tokio::time::sleep(PAUSE).await;
    }
    writer.close().await?;
    Ok(done)
}
