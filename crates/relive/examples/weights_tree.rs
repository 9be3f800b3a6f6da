//! Measures how long it takes until all workers of a run have received new weights (10 MB). The run proceeds in rounds:
//! 8 nodes with 8 workers each need the new version before they act.
//!
//! ```console
//! $ cargo run --release -p relive --features rl --example weights_tree
//! ```

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, whose result is to be read")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_engine::{Engine, EngineBuilder};
use relive_flow::Flow;
use relive_host::{Background, Serve};
use relive_rl::plan::{Crew, Learn, MakeEnvironment, Progress};
use relive_rl::processes::{Connect, Node, NodeWorkers, Running, Worker, host, node_tables, work};
use relive_rl::run::{Begun, Processes, RunOptions, Stop, Watch, train};
use relive_rl::{
    ActStep, Agent, Learner, Learnt, Policy, PolicyContext, Purpose, Result, Rollout, Saveable, Weights,
};
use relive_server::ServerOptions;
use relive_table::TableConfig;

const NODES: usize = 8;
const WORKERS_OF_EACH: u32 = 8;
const BYTES: usize = 10_000_000;
const VERSIONS: u64 = 60;

/// The number of versions at the start that are not measured, because not all nodes have joined yet.
const FIRST: u64 = 10;

/// Events that concern versions: the number of the version, and the time in nanoseconds since 1970.
static MOMENTS: Mutex<Vec<(u64, u128)>> = Mutex::new(Vec::new());

fn note(version: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    MOMENTS.lock().unwrap().push((version, now));
}

/// An agent that learns nothing: its weights have the requested size, and change with each step.
struct Large;

struct Still {
    /// Whether the policy acts for training. Evaluations also load weights.
    trains: bool,
}

impl Policy for Still {
    fn act(&mut self, step: &mut ActStep<'_>) -> Result<()> {
        step.actions.leaf_mut::<i32>(0)?.fill(0);
        Ok(())
    }

    /// Reads all weights, as a real policy does.
    fn load(&mut self, weights: &Weights) -> Result<()> {
        let bytes = weights.part("all").and_then(Tensor::bytes).unwrap();
        assert!(weights.version() == 0 || bytes.iter().step_by(64).any(|byte| *byte != 0));
        if self.trains {
            note(weights.version());
        }
        Ok(())
    }
}

impl Saveable for Still {
    fn save(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

struct Counting {
    version: u64,
    bytes: Vec<u8>,
}

impl Counting {
    /// Fills the weights with new bytes that cannot be compressed.
    fn fill(&mut self) {
        self.version += 1;
        let mut word = self.version.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for chunk in self.bytes.chunks_exact_mut(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }
}

impl Learner for Counting {
    type Batch = Rollout;

    fn learn(&mut self, _: Rollout) -> Result<Learnt> {
        self.fill();
        Ok(Learnt { steps: 1, samples: 1, ..Learnt::default() })
    }

    fn weights(&self) -> Result<Weights> {
        let length = u32::try_from(self.bytes.len()).unwrap();
        let all = Tensor::from_slice(&self.bytes, [length]).unwrap();
        note(self.version);
        Ok(Weights::new(self.version, [("all".to_owned(), all)]))
    }
}

impl Saveable for Counting {
    fn save(&mut self) -> Vec<u8> {
        self.version.to_le_bytes().to_vec()
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Agent for Large {
    fn name(&self) -> &'static str {
        "large"
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(Still { trains: context.purpose == Purpose::Training }))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        let learner = Counting { version: 0, bytes: vec![1; BYTES] };
        Ok(crew.rollouts(1)?.sync()?.learn(crew.learner(learner)?))
    }
}

fn environment(name: &str) -> Result<MakeEnvironment> {
    let name = name.to_owned();
    Ok(MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)))
}

/// Serves tables until the first returned value is dropped.
fn serving() -> (Background, SocketAddr, Serve) {
    let background = Background::new().unwrap();
    let bound = background.bind(":0").unwrap();
    let address = bound.address();
    let serve = background.serving(bound, None, ServerOptions::default(), "the run's tables");
    (background, address, serve)
}

/// Workers as threads of a node's process; they fetch weights from its tables.
struct Threads {
    run: Client,
    near: Client,
    stop: Stop,
    workers: BTreeMap<u32, JoinHandle<()>>,
}

impl NodeWorkers for Threads {
    fn hold(&mut self, numbers: &[u32]) -> Result<()> {
        for number in numbers.iter().copied() {
            let (run, near, stop) = (self.run.clone(), self.near.clone(), self.stop.clone());
            self.workers.entry(number).or_insert_with(|| {
                spawn(move || {
                    let worker = Worker {
                        client: &run,
                        number,
                        is_supervised: false,
                        awaits_next: false,
                        weights_from: Some(&near),
                        stop: &stop,
                        log_lines: None,
                    };
                    work(&worker, &|_, _| Ok(Arc::new(Large)), &environment).unwrap();
                })
            });
        }
        Ok(())
    }

    fn watch(&mut self) -> Result<Running> {
        Ok(Running { workers: u32::try_from(self.workers.len()).unwrap(), restarts: 0 })
    }
}

/// Runs a node in its own process, and at the end, prints when each worker received each version.
fn node(join: &str) {
    let stop = Stop::new();
    let engine = node_tables().fold(Engine::builder(), EngineBuilder::table).build().unwrap();
    let (_background, address, serve) = serving();
    serve(&engine);
    let run = Client::connect(join).unwrap();
    let near = Client::in_process(engine.clone()).unwrap();
    let mut workers = Threads { run: run.clone(), near, stop: stop.clone(), workers: BTreeMap::new() };
    let connect: Connect = Arc::new(|address: &str| Ok(Client::connect(address)?));
    let node = Node {
        client: &run,
        name: address.to_string(),
        host: "here".to_owned(),
        address: Some(address.to_string()),
        actors: WORKERS_OF_EACH,
        engine,
        connect,
        stop: &stop,
    };
    host(&node, &mut workers).unwrap();
    // Stops the workers that have not noticed the end of the run yet.
    stop.stop();
    workers.workers.into_values().for_each(|worker| worker.join().unwrap());
    for (version, moment) in MOMENTS.lock().unwrap().iter() {
        println!("{version} {moment}");
    }
}

fn children(arguments: &[&str], count: usize) -> Vec<Child> {
    let program = std::env::current_exe().unwrap();
    let start = || Command::new(&program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    (0..count).map(|_| start()).collect()
}

fn lines(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Returns, for each version, the milliseconds between its publication and its arrival at the last worker.
fn tree() -> Vec<f64> {
    let (_background, address, serve) = serving();
    let watch = Watch::new(move |engine| serve(engine));
    let nodes: Arc<Mutex<Vec<Child>>> = Arc::default();
    let (started, join) = (Arc::clone(&nodes), address.to_string());
    let begun = Begun::new(move || started.lock().unwrap().extend(children(&["node", &join], NODES)));
    let actors = NODES * usize::try_from(WORKERS_OF_EACH).unwrap();
    let options = RunOptions {
        environment: "catch/0".to_owned(),
        env_steps: u64::MAX,
        learner_steps: Some(VERSIONS),
        actors,
        processes: Some(Processes { server: None, by_nodes: true }),
        watch: Some(watch),
        begun: Some(begun),
        ..RunOptions::default()
    };
    let agent: Arc<dyn Agent> = Arc::new(Large);
    train(&agent, &options, &environment("catch/0").unwrap(), &mut |_| {}).unwrap();
    let mut published = BTreeMap::new();
    for (version, moment) in MOMENTS.lock().unwrap().iter() {
        published.entry(*version).or_insert(*moment);
    }
    let mut last: BTreeMap<u64, (usize, u128)> = BTreeMap::new();
    for child in std::mem::take(&mut *nodes.lock().unwrap()) {
        for line in lines(child).lines() {
            let (version, moment) = line.split_once(' ').unwrap();
            let entry = last.entry(version.parse().unwrap()).or_default();
            *entry = (entry.0 + 1, entry.1.max(moment.parse().unwrap()));
        }
    }
    let whole = last.into_iter().filter(|(version, (count, _))| *version >= FIRST && *count == actors);
    whole.map(|(version, (_, moment))| milliseconds(moment.saturating_sub(published[&version]))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn milliseconds(nanoseconds: u128) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Measures single transfers. Samples an item of the same size from a server in another process, as clients do.
fn fetch(address: &str) {
    let client = Client::connect(address).unwrap();
    for _ in 0..VERSIONS {
        let since = Instant::now();
        let samples = client.sample("one", 1).unwrap();
        let columns = samples[0].columns().unwrap();
        assert_eq!(columns[0].bytes().unwrap().len(), BYTES);
        println!("{}", since.elapsed().as_nanos());
    }
}

fn transfers() -> Vec<f64> {
    let engine = Engine::builder().table(TableConfig::new("one").max_size(1)).build().unwrap();
    let (_background, address, serve) = serving();
    serve(&engine);
    let mut counting = Counting { version: 0, bytes: vec![1; BYTES] };
    counting.fill();
    let item = Tensor::from_slice(&counting.bytes, [u32::try_from(BYTES).unwrap()]).unwrap();
    let client = Client::in_process(engine).unwrap().with_timeout(Duration::from_secs(10));
    client.insert(&Nest::Leaf(item), &[("one", 1.0)]).unwrap();
    let child = children(&["fetch", &address.to_string()], 1).pop().unwrap();
    lines(child).lines().skip(5).map(|line| milliseconds(line.parse().unwrap())).collect()
}

fn quantile(sorted: &[f64], part: usize) -> f64 {
    sorted[(sorted.len() * part / 100).min(sorted.len() - 1)]
}

fn show(what: &str, mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let median = quantile(&of, 50);
    println!(
        "{what}: median {median:.1} ms, 10 % below {:.1}, 10 % above {:.1} ({} times)",
        quantile(&of, 10),
        quantile(&of, 90),
        of.len()
    );
    median
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["node", join] => node(join),
        ["fetch", address] => fetch(address),
        _ => {
            let agents = u32::try_from(NODES).unwrap() * WORKERS_OF_EACH;
            let one = show("one transfer of 10 MB", transfers());
            let all = show(&format!("10 MB to {agents} workers of {NODES} nodes"), tree());
            let limit = 2.0 * one * f64::from(agents).log2();
            println!("at most 2 x one transfer x log2({agents}) = {limit:.1} ms: {:.2} of that", all / limit);
        }
    }
}
