//! Measures the effect of killing one of four servers under load.
//!
//! ```console
//! $ cargo run --release -p relive-benches --bin killed_server -- target/release/relive 10
//! ```
//!
//! Arguments: the program `relive`, and a number of seconds. Four servers run as separate processes. Eight writers and
//! two readers of batches use them as a fleet. After these seconds, one server is killed; after as many again, the
//! measurement ends. Prints the throughput of both halves, and the longest time without progress of a writer or a
//! reader.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use relive_client::{BatchOptions, Client, Nest, Result, Tensor, TrajectoryWriterOptions};
use tokio::task::JoinHandle;

const SERVERS: usize = 4;
const WRITERS: usize = 8;
const READERS: usize = 2;
const BATCH: usize = 256;

/// The number of items that a writer creates between two flushes.
const ITEMS_PER_FLUSH: u64 = 200;

const CONFIG: &str = "[[table]]\nname = 'replay'\nsampler = 'uniform'\nmax_size = 200_000\n";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server in a separate process; returns it and its address.
fn serve(program: &str, config: &std::path::Path) -> std::io::Result<(Killed, String)> {
    let mut child = Command::new(program)
        .args(["serve", "--port", "0", "--log-level", "error", "--config"])
        .arg(config)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let address = line.trim_end().rsplit(' ').next().unwrap_or_default().to_owned();
    Ok((Killed(child), address))
}

/// The progress of writers and readers.
#[derive(Default)]
struct Progress {
    written: AtomicU64,
    read: AtomicU64,
    is_over: AtomicBool,
}

/// The longest time between two successes.
struct Pause {
    last: Instant,
    longest: Duration,
}

impl Pause {
    fn new() -> Pause {
        Pause { last: Instant::now(), longest: Duration::ZERO }
    }

    fn success(&mut self) {
        self.longest = self.longest.max(self.last.elapsed());
        self.last = Instant::now();
    }
}

async fn write(client: Client, progress: Arc<Progress>) -> Result<Duration> {
    let step = Nest::Leaf(Tensor::from_slice(&[1.0_f32; 100], [100]).expect("100 values"));
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
    let mut pause = Pause::new();
    while !progress.is_over.load(Ordering::Relaxed) {
        for _ in 0..ITEMS_PER_FLUSH {
            writer.append(&step)?;
            let newest = writer.history().column("")?.slice(-1..)?;
            writer.create_item("replay", 1.0, newest).await?;
        }
        writer.flush(Duration::from_secs(30)).await?;
        progress.written.fetch_add(ITEMS_PER_FLUSH, Ordering::Relaxed);
        pause.success();
    }
    writer.close().await?;
    Ok(pause.longest)
}

async fn read(client: Client, progress: Arc<Progress>) -> Result<Duration> {
    let mut batches = client.batches("replay", BatchOptions::new(BATCH))?;
    let mut pause = Pause::new();
    let mut out = vec![0; BATCH * 400];
    while !progress.is_over.load(Ordering::Relaxed) {
        let Some(batch) = batches.next().await else { break };
        batch?.gather_into(0, &mut out)?;
        progress.read.fetch_add(BATCH as u64, Ordering::Relaxed);
        pause.success();
    }
    Ok(pause.longest)
}

/// Measures the items written and read per second, for `seconds` seconds.
async fn rates(progress: &Progress, seconds: u64) -> (u64, u64) {
    let counts = || (progress.written.load(Ordering::Relaxed), progress.read.load(Ordering::Relaxed));
    let before = counts();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after = counts();
    ((after.0 - before.0) / seconds, (after.1 - before.1) / seconds)
}

async fn longest(
    tasks: Vec<JoinHandle<Result<Duration>>>,
) -> std::result::Result<Duration, Box<dyn std::error::Error>> {
    let mut longest = Duration::ZERO;
    for task in tasks {
        longest = longest.max(task.await??);
    }
    Ok(longest)
}

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
#[tokio::main(worker_threads = 2)]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(program), Some(seconds)) = (args.next(), args.next()) else {
        return Err("usage: killed_server PATH_OF_RELIVE SECONDS".into());
    };
    let seconds: u64 = seconds.parse()?;
    let config = std::env::temp_dir().join(format!("killed-server-{}.toml", std::process::id()));
    std::fs::write(&config, CONFIG)?;
    let started = (0..SERVERS).map(|_| serve(&program, &config)).collect::<std::io::Result<Vec<_>>>();
    let (mut servers, addresses): (Vec<Killed>, Vec<String>) = started?.into_iter().unzip();
    std::fs::remove_file(&config)?;
    let client = Client::connect_many(&addresses)?;
    let progress = Arc::new(Progress::default());
    let writers: Vec<_> =
        (0..WRITERS).map(|_| tokio::spawn(write(client.clone(), Arc::clone(&progress)))).collect();
    let readers: Vec<_> =
        (0..READERS).map(|_| tokio::spawn(read(client.clone(), Arc::clone(&progress)))).collect();
    // Warm-up: tables fill, and one-time setup completes.
    rates(&progress, 3).await;
    let before = rates(&progress, seconds).await;
    servers.truncate(SERVERS - 1);
    let after = rates(&progress, seconds).await;
    progress.is_over.store(true, Ordering::Relaxed);
    let (writing, reading) = (longest(writers).await?, longest(readers).await?);
    let share = |after: u64, before: u64| 100 * after / before.max(1);
    println!("four servers:  {} items/s written, {} items/s read", before.0, before.1);
    println!(
        "three servers: {} items/s written ({} %), {} items/s read ({} %)",
        after.0,
        share(after.0, before.0),
        after.1,
        share(after.1, before.1)
    );
    println!("longest pause: of a writer {writing:.0?}, of a reader {reading:.0?}");
    Ok(())
}
