//! Clients that insert and sample continuously, and the durations of their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use relive_client::{Client, Nest, Sampler, SamplerOptions, TrajectoryWriter, TrajectoryWriterOptions};
use relive_engine::Engine;

use crate::content::{ITEM_BYTES, Items, TABLE};
use relive_benches::Outcome;

/// How the clients reach the table.
#[derive(Clone)]
pub(crate) enum ClientTransport {
    Tcp(String),
    InProcess(Engine),
}

/// The phase of the measurement during a call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Calls in this phase are not counted.
    Pause,
    /// No checkpoint is in progress.
    Quiet,
    /// A checkpoint is in progress.
    Checkpoint,
    End,
}

/// The current phase, which all threads share.
pub(crate) struct Clock {
    phase: AtomicU8,
    start: Instant,
}

/// Calls of one kind in one phase.
pub(crate) struct Calls {
    pub(crate) took_ns: Histogram<u64>,
    /// The longest call, and the time at which it began.
    pub(crate) longest: (Duration, Duration),
}

/// The calls from one thread, without and with a checkpoint.
pub(crate) struct Done {
    pub(crate) inserts: [Calls; 2],
    pub(crate) samples: [Calls; 2],
}

/// The number of samples for each insert of a client in this process: a learner's ratio, which prevents the client from
/// replacing the whole table within seconds.
const SAMPLES_PER_INSERT: u32 = 32;

/// The longest wait for any answer.
const PATIENCE: Duration = Duration::from_secs(60);

impl Clock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { phase: AtomicU8::new(Phase::Pause as u8), start: Instant::now() })
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Returns the time since the clock was created.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn is_over(&self) -> bool {
        self.phase() == Phase::End as u8
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::SeqCst)
    }
}

impl Calls {
    fn new() -> Self {
        Self { took_ns: Histogram::new(3).expect("three digits are possible"), longest: Default::default() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.took_ns.add(&other.took_ns).expect("histograms of one kind grow as they must");
        self.longest = self.longest.max(other.longest);
    }

    fn note(&mut self, took: Duration, began: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took_ns.record(took_ns).expect("histograms grow as they must");
        self.longest = self.longest.max((took, began));
    }
}

impl Done {
    pub(crate) fn new() -> Self {
        Self { inserts: [Calls::new(), Calls::new()], samples: [Calls::new(), Calls::new()] }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [(&mut self.inserts, &other.inserts), (&mut self.samples, &other.samples)];
        for (mine, theirs) in pairs {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.add(theirs));
        }
    }
}

/// Starts clients: over TCP, two that insert and two that sample; in this process, two that do both.
pub(crate) fn start(way: &ClientTransport, clock: &Arc<Clock>) -> Vec<JoinHandle<Outcome<Done>>> {
    let ratios: &[(u32, u32)] = match way {
        ClientTransport::Tcp(_) => &[(1, 0), (1, 0), (0, 1), (0, 1)],
        ClientTransport::InProcess(_) => &[(1, SAMPLES_PER_INSERT), (1, SAMPLES_PER_INSERT)],
    };
    let start = |(seed, ratio): (u64, &(u32, u32))| {
        let (way, clock, ratio) = (way.clone(), Arc::clone(clock), *ratio);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(client(&way, &clock, 100 + seed, ratio))
        })
    };
    (0..).zip(ratios).map(start).collect()
}

/// Alternates between the given numbers of inserts and samples. Waits for every call to complete; an insert is complete
/// once it is confirmed.
async fn client(
    way: &ClientTransport,
    clock: &Clock,
    seed: u64,
    (inserts, samples): (u32, u32),
) -> Outcome<Done> {
    let client = match way {
        ClientTransport::Tcp(address) => Client::connect(address)?,
        ClientTransport::InProcess(engine) => Client::in_process(engine.clone()),
    };
    let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
    let mut sampler = client.sampler(TABLE, SamplerOptions::default().max_in_flight_samples_per_worker(1))?;
    let (mut items, mut done) = (Items::new(seed), Done::new());
    while !clock.is_over() {
        for _ in 0..inserts {
            insert(&mut writer, &mut items, clock, &mut done.inserts).await?;
        }
        for _ in 0..samples {
            sample(&mut sampler, clock, &mut done.samples).await?;
        }
    }
    Ok(done)
}

async fn insert(
    writer: &mut TrajectoryWriter,
    items: &mut Items,
    clock: &Clock,
    calls: &mut [Calls; 2],
) -> Outcome {
    let step = Nest::List(vec![Nest::Leaf(items.tensor(&[ITEM_BYTES])?)]);
    let timer = Timer::start(clock);
    writer.append(&step)?;
    let newest = writer.history().column_at(0)?.slice(-1..)?;
    writer.create_item(TABLE, 1.0, [newest]).await?;
    writer.flush(PATIENCE).await?;
    timer.stop(calls);
    Ok(())
}

async fn sample(sampler: &mut Sampler, clock: &Clock, calls: &mut [Calls; 2]) -> Outcome {
    let timer = Timer::start(clock);
    let sample = sampler.next().await.ok_or("the sampler has ended")??;
    std::hint::black_box(sample.columns()?);
    timer.stop(calls);
    Ok(())
}

struct Timer<'a> {
    clock: &'a Clock,
    phase: u8,
    began: Duration,
}

impl<'a> Timer<'a> {
    fn start(clock: &'a Clock) -> Self {
        Self { clock, phase: clock.phase(), began: clock.elapsed() }
    }

    /// A call counts as made during a checkpoint if one was in progress when the call started or ended.
    fn stop(self, [quiet, checkpoint]: &mut [Calls; 2]) {
        let took = self.clock.elapsed() - self.began;
        let phases = [self.phase, self.clock.phase()];
        if phases.contains(&(Phase::Checkpoint as u8)) {
            checkpoint.note(took, self.began);
        } else if phases == [Phase::Quiet as u8; 2] {
            quiet.note(took, self.began);
        }
    }
}

/// Returns a thread that only reads the clock, a thousand times a second, so that its delays are caused by the machine.
/// The thread returns its longest delays without and with a checkpoint.
pub(crate) fn watch(clock: &Arc<Clock>) -> JoinHandle<[Calls; 2]> {
    let clock = Arc::clone(clock);
    std::thread::spawn(move || {
        let mut calls = [Calls::new(), Calls::new()];
        while !clock.is_over() {
            let timer = Timer::start(&clock);
            std::thread::sleep(Duration::from_millis(1));
            timer.stop(&mut calls);
        }
        calls
    })
}
