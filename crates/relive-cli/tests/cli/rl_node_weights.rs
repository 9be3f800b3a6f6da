//! Tests how nodes pass on weights when one node's connection is cut during a transfer.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use relive_client::blocking::Client;
use relive_client::{ClientOptions, TransportChoice};
use relive_engine::{Engine, EngineBuilder};
use relive_rl::Result;
use relive_rl::plan::MakeEnvironment;
use relive_rl::processes::{Connect, Node, NodeWorkers, Running, Worker, host, node_tables, work};
use relive_rl::run::Stop;
use relive_server::{Entrance, Entrances, ServerOptions};

use crate::rl_nodes::nodes as nodes_of;
use crate::support::{command, free_address};

/// Forwards connections to a server until a number of bytes has arrived from the server; then closes them, and accepts
/// no more.
struct Cutting {
    address: SocketAddr,
    left: Arc<AtomicU64>,
}

impl Cutting {
    fn start(server: SocketAddr, bytes: u64) -> Cutting {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, left) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(bytes)));
        let remaining = Arc::clone(&left);
        spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if remaining.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let far = TcpStream::connect(server).unwrap();
                let (back, forth) = ((far.try_clone().unwrap(), near.try_clone().unwrap()), (near, far));
                let left = Arc::clone(&remaining);
                spawn(move || forward(back, Some(&left)));
                spawn(move || forward(forth, None));
            }
        });
        Cutting { address, left }
    }

    fn has_cut(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

fn forward((mut from, mut to): (TcpStream, TcpStream), left: Option<&AtomicU64>) {
    let mut buffer = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let allowed = left.map_or(u64::MAX, |left| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(read as u64))
            })
            .unwrap()
        });
        let count = read.min(usize::try_from(allowed).unwrap_or(usize::MAX));
        if to.write_all(&buffer[..count]).is_err() || count < read {
            break;
        }
    }
    for socket in [&from, &to] {
        // The other direction may have closed the socket.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Workers as threads of this process.
struct Threads {
    run: Client,
    near: Client,
    stop: Stop,
    workers: Vec<JoinHandle<()>>,
}

impl NodeWorkers for Threads {
    fn hold(&mut self, numbers: &[u32]) -> Result<()> {
        assert!(self.workers.is_empty() && numbers == [0], "{numbers:?}");
        let (run, near, stop) = (self.run.clone(), self.near.clone(), self.stop.clone());
        self.workers.push(spawn(move || {
            let make = |name: &str| {
                let name = name.to_owned();
                Ok(MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)))
            };
            let worker = Worker {
                client: &run,
                number: 0,
                is_supervised: true,
                awaits_next: false,
                weights_from: Some(&near),
                stop: &stop,
                log_lines: None,
            };
            work(&worker, &relive_agents::from_json, &make).unwrap();
        }));
        Ok(())
    }

    fn watch(&mut self) -> Result<Running> {
        Ok(Running { workers: u32::try_from(self.workers.len()).unwrap(), restarts: 0 })
    }
}

/// Serves a node's tables; returns the address.
fn served(engine: &Engine) -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(relive_server::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let (address, engine) = (listener.local_addr().unwrap(), engine.clone());
    spawn(move || {
        let entrances = Entrances::from(Entrance::from(listener));
        runtime
            .block_on(relive_server::serve(
                entrances,
                engine,
                ServerOptions::default(),
                std::future::pending(),
            ))
            .unwrap();
    });
    address
}

/// Starts a node of the run at `join` on a separate thread; other nodes reach the node at `address`.
fn started(join: &str, engine: &Engine, address: SocketAddr, stop: &Stop) -> JoinHandle<()> {
    let (join, engine, stop) = (join.to_owned(), engine.clone(), stop.clone());
    spawn(move || {
        // Connects only over TCP, because the local socket, which servers also offer, cannot be cut.
        let tcp = || ClientOptions::default().transport(TransportChoice::Tcp);
        let client = Client::connect_with(&join, tcp()).unwrap();
        let connect: Connect = Arc::new(move |address: &str| Ok(Client::connect_with(address, tcp())?));
        let near = Client::in_process(engine.clone()).unwrap();
        let mut workers = Threads { run: client.clone(), near, stop: stop.clone(), workers: Vec::new() };
        let (name, host_name) = (address.to_string(), "here".to_owned());
        let node = Node {
            client: &client,
            name,
            host: host_name,
            address: Some(address.to_string()),
            actors: 1,
            engine,
            connect,
            stop: &stop,
        };
        host(&node, &mut workers).unwrap();
        workers.workers.into_iter().for_each(|worker| worker.join().unwrap());
    })
}

fn engine() -> Engine {
    node_tables().fold(Engine::builder(), EngineBuilder::table).build().unwrap()
}

/// Returns the next weights that a node receives: the epoch of their driver, and their version.
fn next(node: &Client) -> (u64, u64) {
    let samples = node.sample("fresh/0", 1).unwrap();
    let stamp = samples[0].columns().unwrap()[1].to_vec::<u64>().unwrap();
    (stamp[0], stamp[1])
}

#[test]
fn a_node_whose_parent_disconnects_gets_weights_from_another_source() {
    let (address, stop) = (free_address(), Stop::new());
    let train =
        ["rl", "train", "ppo", "--env", "CartPole-v1", "--on", "processes", "--actors", "1", "--no-spawn"];
    // The weights have 2 MB, and are published at intervals of several learner steps.
    let more = [
        "--listen",
        &address,
        "--steps",
        "1000000000",
        "--set",
        "hidden=[512,512]",
        "--set",
        "num_envs=2",
        "--set",
        "num_steps=8",
    ];
    let mut driver = command(&[&train[..], &more].concat()).stdout(Stdio::null()).spawn().unwrap();
    while TcpStream::connect(&address).is_err() {
        std::thread::yield_now();
    }
    let engines = [engine(), engine(), engine()];
    let far: Vec<SocketAddr> = engines.iter().map(served).collect();
    let cutting = Cutting::start(far[0], 9_000_000);
    let ends = [cutting.address, far[1], far[2]];
    let client = Client::in_process(engines[2].clone()).unwrap().with_timeout(Duration::from_secs(60));
    let mut nodes = Vec::new();
    for (number, engine) in engines.iter().enumerate() {
        nodes.push(started(&address, engine, ends[number], &stop));
        // The nodes join in this order, so that the third receives weights from the first.
        nodes_of(&address, |nodes| nodes.len() == number + 1);
    }
    let (mut last, mut after) = (next(&client), 0);
    while after < 5 {
        let newer = next(&client);
        assert!(newer > last, "{newer:?} after {last:?}");
        after += u32::from(cutting.has_cut());
        last = newer;
    }
    stop.stop();
    nodes.into_iter().for_each(|node| node.join().unwrap());
    driver.kill().unwrap();
    driver.wait().unwrap();
}
