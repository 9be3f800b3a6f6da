//! Measures the effect of a checkpoint on clients that insert and sample at the same time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relive::ServerOptions;
use relive_checkpoint::Store;
use relive_engine::{Engine, EngineError};
use relive_host::Background;

use crate::arguments::Arguments;
use crate::clients::{self, Calls, ClientTransport, Clock, Done, Phase};
use crate::content::{full, rules};
use crate::files::{self, Folder};
use relive_benches::Outcome;

/// The time for which clients run without a checkpoint, in each round.
const QUIET: Duration = Duration::from_secs(10);

/// The time for clients to reach a steady state.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the next checkpoint goes. Each checkpoint has its own folder, so that it writes all of its data.
type Target = Arc<Mutex<Option<Store>>>;

pub(crate) fn measure(arguments: &Arguments) -> Outcome {
    let items = arguments.items();
    println!("\n# Under load, {items} items");
    let target = Target::default();
    let engine = full(rules(items).checkpointer(saving_to(Arc::clone(&target))), items)?;
    let background = Background::new()?;
    let bound = background.bind(":0")?;
    let address = format!("localhost:{}", bound.address().port());
    background.serving(bound, None, ServerOptions::default(), "the tables")(&engine);
    let ways = [
        ("over TCP", ClientTransport::Tcp(address)),
        ("in process", ClientTransport::InProcess(engine.clone())),
    ];
    for (name, way) in ways {
        println!("\n## Clients {name}");
        let observed = observe(arguments, &engine, &way, &target)?;
        observed.print();
    }
    Ok(())
}

fn saving_to(
    target: Target,
) -> impl Fn(
    relive_table::Snapshot,
    &relive_table::CheckpointProgress,
) -> Result<relive_table::SavedCheckpoint, EngineError>
+ Send
+ Sync {
    move |snapshot, progress| {
        let store = target.lock().unwrap_or_else(PoisonError::into_inner).take();
        let store =
            store.ok_or_else(|| EngineError::checkpoint(std::io::Error::other("no folder is set")))?;
        store.save(snapshot, progress).map_err(EngineError::checkpoint)
    }
}

/// Totals over all rounds and clients.
struct Observed {
    done: Done,
    watched: [Calls; 2],
    /// The time without and with a checkpoint.
    times: [Duration; 2],
    written_bytes: u64,
    longest_pause: Duration,
}

fn observe(
    arguments: &Arguments,
    engine: &Engine,
    way: &ClientTransport,
    target: &Target,
) -> Outcome<Observed> {
    let clock = Clock::new();
    let watching = clients::watch(&clock);
    let clients = clients::start(way, &clock);
    let mut times = [Duration::ZERO; 2];
    let (mut written_bytes, mut longest_pause) = (0, Duration::ZERO);
    for _ in 0..arguments.rounds {
        let folder = Folder::new(arguments.folder.join("load"))?;
        files::settle();
        std::thread::sleep(PAUSE);
        times[0] += during(&clock, Phase::Quiet, || std::thread::sleep(QUIET));
        let store = Store::open(&folder.path().to_string_lossy())?;
        *target.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        let mut saved = None;
        times[1] += during(&clock, Phase::Checkpoint, || saved = Some(engine.checkpoint()));
        written_bytes += saved.ok_or("there is no checkpoint")??.written_bytes;
        let pause = engine.checkpoint_status().last.map(|last| last.longest_pause);
        longest_pause = longest_pause.max(pause.unwrap_or_default());
    }
    clock.set(Phase::End);
    let mut done = Done::new();
    for client in clients {
        done.add(&client.join().map_err(|_| "a client panicked")??);
    }
    let watched = watching.join().map_err(|_| "the watch panicked")?;
    Ok(Observed { done, watched, times, written_bytes, longest_pause })
}

fn during(clock: &Clock, phase: Phase, act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    clock.set(phase);
    act();
    clock.set(Phase::Pause);
    start.elapsed()
}

impl Observed {
    fn print(&self) {
        let Self { done, watched, times, written_bytes, longest_pause } = self;
        let [quiet_s, busy_s] = times.map(|time| time.as_secs_f64());
        println!(
            "checkpoints: {:.1} s, {:.3} GB/s, longest pause of a table {longest_pause:.1?}",
            busy_s,
            *written_bytes as f64 / 1e9 / busy_s,
        );
        println!("| | without | during | |");
        println!("|---|---|---|---|");
        for (name, [quiet, busy]) in [("insert", &done.inserts), ("sample", &done.samples)] {
            let per_s = |calls: &Calls, seconds: f64| calls.took_ns.len() as f64 / seconds;
            let (without, with) = (per_s(quiet, quiet_s), per_s(busy, busy_s));
            println!("| {name}s/s | {without:.0} | {with:.0} | {:.0} % |", 100.0 * with / without);
            for quantile in [0.5, 0.99, 0.999, 0.9999] {
                let ms = |calls: &Calls| calls.took_ns.value_at_quantile(quantile) as f64 / 1e6;
                println!("| {name} p{} ms | {:.3} | {:.3} | |", quantile * 100.0, ms(quiet), ms(busy));
            }
            println!("| {name} longest | {} | {} | |", longest(quiet), longest(busy));
        }
        let [quiet, busy] = watched;
        println!("| a thread that sleeps 1 ms, longest | {} | {} | |", longest(quiet), longest(busy));
    }
}

fn longest(calls: &Calls) -> String {
    let (took, began) = calls.longest;
    format!("{:.1} ms (at {:.3} s)", took.as_secs_f64() * 1e3, began.as_secs_f64())
}
