//! Measures the transfer of items from worker processes to the driver of a run, one small item at a time.
//!
//! ```text
//! cargo run --release -p relive-benches --bin processes -- 5000000 2
//! ```
//!
//! The arguments are the number of items and of workers. Each worker is a separate process, which only produces
//! numbers, so that nothing else takes time.

#![expect(clippy::print_stdout, reason = "a program that reports")]

use std::error::Error;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use relive_client::blocking::Client;
use relive_env::State;
use relive_flow::{Async, Flow};
use relive_host::Background;
use relive_rl::plan::{Crew, MakeEnvironment, Progress};
use relive_rl::processes::{Layouts, Message, Worker, work};
use relive_rl::run::{Processes, RunOptions, Stop, Watch, train};
use relive_rl::{
    ActStep, Acted, Agent, Learner, Learnt, Policy, PolicyContext, Result, RlError, Rollout, Saveable,
    Weights,
};
use relive_server::ServerOptions;

const ITEMS: u64 = 5_000_000;
const WORKERS: usize = 2;

/// A small item.
struct Number(u64);

impl Message for Number {
    fn empty(_: &Layouts) -> Result<Number> {
        Ok(Number(0))
    }

    fn visit(&mut self, state: &mut State<'_>) -> Result<()> {
        state.field(&mut self.0);
        Ok(())
    }
}

/// An agent whose workers produce consecutive numbers.
struct Counting;

/// A policy that never acts, and a learner that learns nothing.
struct Idle;

impl Saveable for Idle {
    fn save(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Policy for Idle {
    fn act(&mut self, _: &mut ActStep<'_>) -> Result<()> {
        Ok(())
    }

    fn load(&mut self, _: &Weights) -> Result<()> {
        Ok(())
    }
}

impl Learner for Idle {
    type Batch = Rollout;

    fn learn(&mut self, _: Rollout) -> Result<Learnt> {
        Ok(Learnt::default())
    }

    fn weights(&self) -> Result<Weights> {
        Ok(Weights::new(1, []))
    }
}

impl Agent for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn policy(&self, _: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(Idle))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        crew.learner(Idle)?;
        let numbers = crew.rollouts(1)?.on_each(|_, _| Flow::from_iter("numbers", (0..).map(Number)));
        let one = Acted { env_steps: 1, ..Acted::default() };
        let counted = numbers.gather_async(Async::default())?.for_each(move |Number(_)| one.clone());
        Ok(counted.for_each(|acted| Progress { acted: vec![acted], learnt: None }))
    }
}

fn catch(_: &str) -> Result<MakeEnvironment> {
    Ok(MakeEnvironment::new(|seed| Ok(relive_env::make("catch/0", seed)?)))
}

fn act(address: &str, number: u32) -> std::result::Result<(), Box<dyn Error>> {
    let client = Client::connect(address)?;
    let stop = Stop::new();
    let worker = Worker { is_supervised: true, ..Worker::new(&client, number, &stop) };
    work(&worker, &|_, _| Ok(Arc::new(Counting)), &catch)?;
    Ok(())
}

/// Serves a run's tables and starts its workers.
fn serving(background: &Background, workers: usize, children: Arc<Mutex<Vec<Child>>>) -> Watch {
    let bound = background.bind(":0").expect("a free port");
    let address = bound.address().to_string();
    let serve = background.serving(bound, None, ServerOptions::default(), "the run's tables");
    Watch::new(move |engine| {
        serve(engine);
        for number in 0..workers {
            let program = std::env::current_exe().expect("this program");
            let child = Command::new(program).args(["worker", &address, &number.to_string()]).spawn();
            children.lock().expect("no other panics").push(child.expect("a worker starts"));
        }
    })
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, address, number] = arguments.as_slice()
        && what == "worker"
    {
        return act(address, number.parse()?);
    }
    let env_steps = arguments.first().map_or(Ok(ITEMS), |text| text.parse())?;
    let actors = arguments.get(1).map_or(Ok(WORKERS), |text| text.parse())?;
    let background = Background::new()?;
    let children = Arc::new(Mutex::new(Vec::new()));
    let options = RunOptions {
        environment: "catch/0".to_owned(),
        env_steps,
        actors,
        processes: Some(Processes::default()),
        watch: Some(serving(&background, actors, Arc::clone(&children))),
        ..RunOptions::default()
    };
    let agent: Arc<dyn Agent> = Arc::new(Counting);
    let summary = train(&agent, &options, &catch("")?, &mut |_| {})?.summary;
    println!("{actors} workers: {:.0} items/s", summary.env_steps_per_s);
    for mut child in children.lock().map_err(|_| RlError::Stopped)?.drain(..) {
        child.wait()?;
    }
    Ok(())
}
