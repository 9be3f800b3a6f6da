//! `relive rl node`: runs several workers of a remote run, and passes the run's weights on to other nodes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relive_cluster::launch::{Event, EventKind, Job, Members, Next, Processes, Restart, Task};
use relive_engine::{Engine, EngineBuilder};
use relive_rl::RlError;
use relive_rl::limits::MAX_NODE_WORKERS;
use relive_rl::processes::{Connect, Node, NodeWorkers, Running, host, node_tables};
use relive_rl::run::Stop;
use relive_rl::watching::host_name;

use super::node_port::NodePort;
use super::processes::ServerAccess;
use super::supervisor::{AFTER_SUCCESS, GRACE, failure_text};
use crate::config;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::signals;

/// The maximum length of a node's name.
const MAX_NAME: usize = 63;

/// Options of `relive rl node`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address of the server with the run's tables, host:port; the run determines agent, settings and environment
    #[arg(long, value_name = "ADDR")]
    join: String,
    /// Workers of this node, each in its own process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_NODE_WORKERS)))]
    actors: u32,
    /// Pass weights on to other nodes at this IP address, or localhost, and port [default: a free port of the address
    /// from which this machine reaches the run]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket)]
    listen: Option<SocketAddr>,
    /// Name of the node in logs and lists [default: the name of the machine and the number of the process]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    #[command(flatten)]
    access: ServerAccess,
}

fn name(text: &str) -> std::result::Result<String, String> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(is_fit) {
        return Ok(text.to_owned());
    }
    Err(format!("a name must have 1 to {MAX_NAME} letters, digits, dashes, underscores or dots"))
}

/// Acts until the run ends.
pub(crate) fn run(options: &Options) -> Result {
    let stop = Stop::new();
    let stop_handle = stop.clone();
    signals::stop_in_order("node", move || stop_handle.stop())
        .map_err(|error| Failure::text(Kind::Runtime, error))?;
    let client = options.access.client(&options.join, "--join")?;
    let tables = node_tables().fold(Engine::builder(), EngineBuilder::table);
    let engine = tables.build().map_err(|error| Failure::text(Kind::Runtime, error))?;
    let listen = options.listen.unwrap_or_else(|| SocketAddr::new(reached_by(&options.join), 0));
    let port = NodePort::start(listen, &engine, options.access.security())?;
    let machine = own_host();
    let own = format!("{machine}-{}", std::process::id());
    let name = options.name.clone().unwrap_or(own);
    let mut workers = Workers::new(options, port.local_address());
    let access = options.access.clone();
    let connect: Connect = Arc::new(move |address: &str| {
        let refused = |failure: Failure| {
            RlError::setting("the address of a node", failure.message(), "one of this run's")
        };
        access.connect(address).map_err(refused)
    });
    let node = Node {
        client: &client,
        name: name.clone(),
        host: machine,
        address: port.address(),
        actors: options.actors,
        engine,
        connect,
        stop: &stop,
    };
    let hosted = host(&node, &mut workers)?;
    workers.end();
    output::line(&format!("{name}: {} workers, {} restarts", hosted.workers, hosted.restarts))?;
    Ok(())
}

/// Returns the address from which this machine reaches the run.
fn reached_by(join: &str) -> IpAddr {
    let authority = join.split_once("://").map_or(join, |(_, authority)| authority);
    let local = TcpStream::connect(authority).and_then(|socket| socket.local_addr());
    local.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

/// Returns the name of this machine, restricted to characters that names may have.
fn own_host() -> String {
    let name: String = host_name().chars().filter(|letter| name_letter(*letter)).take(MAX_NAME).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}

fn name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// The workers of this node. Each worker is a separate job, because the driver assigns the workers' numbers.
struct Workers {
    /// The command that starts each worker, without the worker's number.
    command: Vec<OsString>,
    running: BTreeMap<u32, Worker>,
    restarts: u64,
}

struct Worker {
    members: Members,
    runs: bool,
}

impl Workers {
    fn new(options: &Options, near: &str) -> Workers {
        let words = ["rl", "worker", "--supervised", "--join", &options.join, "--weights-from", near];
        let words = words.into_iter().map(OsString::from);
        Workers {
            command: words.chain(options.access.security().arguments()).collect(),
            running: BTreeMap::new(),
            restarts: 0,
        }
    }

    fn start(&self, number: u32) -> std::result::Result<Members, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let words = std::iter::once(program.into_os_string()).chain(self.command.iter().cloned());
        let words = words.chain(["--number".into(), number.to_string().into()]);
        let command = words.map(|word| super::supervisor::text(&word)).collect::<std::io::Result<Vec<_>>>();
        let task = Task::one("worker", command.map_err(|error| error.to_string())?);
        let restart = Restart { after_success: Some(AFTER_SUCCESS), ..Restart::default() };
        let job = Job { restart, ..Job::new("node", [task]) };
        Processes.run(&job).map_err(|error| error.to_string())
    }

    /// Ends all workers, and gives them time to end by themselves.
    fn end(&mut self) {
        std::thread::scope(|threads| {
            for worker in self.running.values_mut() {
                threads.spawn(|| worker.members.stop(GRACE));
            }
        });
        self.running.clear();
    }

    /// Records an event of the worker with the given number.
    fn note(&mut self, number: u32, event: &Event) -> relive_rl::Result<()> {
        let Some(worker) = self.running.get_mut(&number) else { return Ok(()) };
        worker.runs = matches!(event.what, EventKind::Started(_));
        match &event.what {
            EventKind::Ended(ended, Next::GivenUp { times }) => {
                Err(RlError::Worker { worker: number, text: failure_text(*times, Restart::default(), ended) })
            }
            EventKind::Ended(ended, Next::StartsAgain) => {
                self.restarts += 1;
                tracing::warn!("worker {number} ended with {ended}: restarting it");
                Ok(())
            }
            EventKind::Ended(_, Next::Stays) | EventKind::Started(_) => Ok(()),
        }
    }
}

impl NodeWorkers for Workers {
    fn hold(&mut self, numbers: &[u32]) -> relive_rl::Result<()> {
        // The numbers of the removed workers now belong to another node, so these workers are given no time to end by
        // themselves.
        self.running.retain(|number, _| numbers.contains(number));
        for number in numbers {
            if !self.running.contains_key(number) {
                let members = self.start(*number);
                let members = members.map_err(|text| RlError::Worker { worker: *number, text })?;
                self.running.insert(*number, Worker { members, runs: false });
            }
        }
        Ok(())
    }

    fn watch(&mut self) -> relive_rl::Result<Running> {
        let numbers: Vec<u32> = self.running.keys().copied().collect();
        for number in numbers {
            while let Some(event) =
                self.running.get_mut(&number).and_then(|worker| worker.members.watch(Duration::ZERO))
            {
                self.note(number, &event)?;
            }
        }
        let workers = self.running.values().filter(|worker| worker.runs).count();
        Ok(Running { workers: u32::try_from(workers).unwrap_or(u32::MAX), restarts: self.restarts })
    }
}
