//! The placement of a run's workers: `--on` of `relive rl train`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_cluster::launch::Job;
use relive_rl::limits::MAX_LEARNERS;
use relive_rl::run::Processes;

use super::ray;
use super::run_server::RunServer;
use super::supervisor::{self, Supervisor};
use super::wait_for_server::wait_for_server;
use crate::commands::token;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output;
use crate::security::ClientSecurity;
use crate::server::Target;
use crate::units::parse_seconds;

/// Where the workers of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExecutorKind {
    /// One thread alternates between acting and learning: the same seed gives the same run
    Serial,
    /// Each worker is a thread alongside the learner thread
    Threads,
    /// Each worker is a process, around the server of the run's tables
    Processes,
    /// The same, but workers are Ray actors, on the cluster that RAY_ADDRESS names or on this machine
    Ray,
}

/// Where a run's workers are, and how many there are.
#[derive(Debug, Clone, Args)]
pub(super) struct Executor {
    /// Where the workers are [default: threads if there are --actors, otherwise serial]
    #[arg(long, value_enum)]
    on: Option<ExecutorKind>,
    /// Workers that act alongside the learner thread; with 0, that thread alternates between acting and learning [default:
    /// 0; 2 on threads, processes and ray]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(0..=64))]
    actors: Option<u8>,
    /// Learners that share one set of weights, each a process on this machine [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LEARNERS)), allow_negative_numbers = true)]
    learners: Option<u32>,
    /// On processes and ray: serve the run's tables at this IP address, or localhost, and port, where workers can join
    /// [default: a free port of this machine]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket, conflicts_with = "server")]
    listen: Option<SocketAddr>,
    /// On processes and ray: keep the run's tables on an existing server, host:port
    #[arg(long, value_name = "ADDR")]
    server: Option<String>,
    /// On processes: start no workers; they join with `relive rl node` or `relive rl worker`
    #[arg(long)]
    no_spawn: bool,
    #[command(flatten)]
    access: ServerAccess,
}

/// How a server is reached.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerAccess {
    /// How long to wait for a server that is not running yet
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    timeout: Duration,
    #[command(flatten)]
    security: ClientSecurity,
}

impl ServerAccess {
    /// Returns the credentials for the server.
    pub(super) fn security(&self) -> &ClientSecurity {
        &self.security
    }

    /// Returns a client for a server that may already be gone, such as the server of a node.
    pub(super) fn connect(&self, address: &str) -> Result<Client> {
        let options = self.security.apply(ClientOptions::default())?;
        Client::connect_with(address, options).map_err(Failure::from)
    }

    /// Returns a client for this worker's node, which is on the same machine and needs no TLS.
    pub(super) fn near(&self, address: &str) -> Result<Client> {
        let options = ClientOptions::default();
        let options = match self.security.token()? {
            Some(token) => options.token(token),
            None => options,
        };
        Client::connect_with(address, options).map_err(Failure::from)
    }

    /// Returns a client for the server at an address, once it is available; errors name the option that gave the
    /// address.
    pub(super) fn client(&self, address: &str, option: &str) -> Result<Client> {
        wait_for_server(&Target {
            address: address.to_owned(),
            timeout: self.timeout,
            security: self.security.clone(),
        })?;
        let options = self.security.apply(ClientOptions::default())?;
        Client::connect_with(address, options)
            .map_err(|error| Failure::usage(format!("{option} {address}: {error}")))
    }
}

impl Executor {
    /// Returns the number of workers, in addition to the learning thread.
    pub(super) fn actors(&self) -> usize {
        let default = match self.on {
            Some(ExecutorKind::Threads | ExecutorKind::Processes | ExecutorKind::Ray) => 2,
            None if self.has_learners() => 2,
            Some(ExecutorKind::Serial) | None => 0,
        };
        self.actors.map_or(default, usize::from)
    }

    /// Returns the number of the run's learners.
    pub(super) fn learners(&self) -> u32 {
        self.learners.unwrap_or(1)
    }

    /// Returns whether other processes learn as well.
    fn has_learners(&self) -> bool {
        self.learners() > 1
    }

    /// Returns whether no option determines where the workers run.
    pub(super) fn is_default(&self) -> bool {
        let Executor { on, actors, learners, listen, server, no_spawn, access } = self;
        access.security.arguments().is_empty()
            && on.is_none()
            && actors.is_none()
            && learners.is_none()
            && listen.is_none()
            && server.is_none()
            && !no_spawn
    }

    /// Returns the address of the run's tables on an existing server, and the token for it.
    pub(super) fn server(&self) -> Result<Option<(String, Option<String>)>> {
        let Some(server) = &self.server else { return Ok(None) };
        Ok(Some((server.clone(), self.access.security.token()?)))
    }

    /// Returns whether the run's tables are on an existing server.
    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns whether workers are other processes.
    fn is_apart(&self) -> bool {
        matches!(self.on, Some(ExecutorKind::Processes | ExecutorKind::Ray))
    }

    /// # Errors
    /// Some of the options exclude each other.
    pub(super) fn validate(&self) -> Result {
        let usage_error = |text: &str| Err(Failure::usage(text.to_owned()));
        match (self.on, self.actors()) {
            (Some(ExecutorKind::Serial), 0) | (None, 0) if self.has_learners() => {
                return usage_error(
                    "--learners requires --actors of at least 1: a single thread that acts and learns cannot wait for other learners",
                );
            }
            (Some(ExecutorKind::Serial), 1..) => {
                return usage_error("--on serial does not support --actors: one thread acts and learns");
            }
            (Some(ExecutorKind::Threads | ExecutorKind::Processes | ExecutorKind::Ray), 0) => {
                return usage_error("--on threads, processes and ray require --actors of at least 1");
            }
            (Some(ExecutorKind::Ray), _) if self.no_spawn => {
                return usage_error(
                    "--no-spawn requires --on processes: on ray, the command starts the workers",
                );
            }
            (Some(ExecutorKind::Ray), _) if self.access.security.has_tls() => {
                return usage_error("--on ray does not support TLS: its workers present a token");
            }
            _ => {}
        }
        if self.has_learners() && self.has_server() {
            return usage_error(
                "--learners cannot be combined with --server: the learners share the tables of the run's own process",
            );
        }
        let only = [
            ("--listen", self.listen.is_some()),
            ("--server", self.server.is_some()),
            ("--no-spawn", self.no_spawn),
        ];
        match only.iter().find(|(_, is_given)| *is_given && !self.is_apart()) {
            Some((option, _)) => usage_error(&format!("{option} requires --on processes")),
            None => Ok(()),
        }
    }

    /// Returns the dashboard at `http`, if requested, and the server of the run's own tables, if other processes need
    /// them.
    pub(super) fn run_server(&self, http: Option<SocketAddr>) -> Result<Option<RunServer>> {
        let serves = (self.is_apart() || self.has_learners()) && self.server.is_none();
        if http.is_some() && self.actors() == 0 {
            return Err(Failure::usage(
                "--http requires --actors: without them, the run has no tables to show",
            ));
        }
        if http.is_some() && self.server.is_some() {
            let text = "--http shows the tables of this process; for tables on a --server, use the server's dashboard";
            return Err(Failure::usage(text));
        }
        if http.is_none() && !serves {
            return Ok(None);
        }
        let (mut listen, mut token) = (self.listen, self.access.security.token()?);
        if self.on == Some(ExecutorKind::Ray) {
            listen = Some(listen.map_or_else(ray::address, Ok)?);
            token = Some(token.map_or_else(token::random, Ok)?);
        }
        let run_server = RunServer::start(http, listen, token)?;
        run_server.announce();
        if run_server.token().is_none() && listen.is_some_and(|listen| !listen.ip().is_loopback()) {
            tracing::warn!(
                "everyone who can reach this machine has access to the run's tables; to require a token, give \
                 --token-file or set RELIVE_TOKEN"
            );
        }
        if serves && self.on == Some(ExecutorKind::Processes) {
            output::print_error(&format!(
                "to add a node with workers: relive rl node --join {}",
                run_server.address()
            ));
        }
        Ok(Some(run_server))
    }

    /// Returns the settings of the actors' processes, if the actors are processes.
    pub(super) fn processes(&self) -> Result<Option<Processes>> {
        if !self.is_apart() {
            return Ok(None);
        }
        let server = self.server.as_ref().map(|server| self.access.client(server, "--server")).transpose()?;
        Ok(Some(Processes { server, by_nodes: self.no_spawn }))
    }

    /// Starts the workers and learners that this process must start.
    pub(super) fn supervisor(&self, run_server: Option<&RunServer>) -> Result<Option<Supervisor>> {
        let has_workers = self.is_apart() && !self.no_spawn;
        if !has_workers && !self.has_learners() {
            return Ok(None);
        }
        let address = match (&self.server, run_server) {
            (Some(server), _) => server.clone(),
            (None, Some(run_server)) => run_server.address().to_string(),
            (None, None) => return Ok(None),
        };
        let token = match run_server {
            Some(run_server) => run_server.token().map(str::to_owned),
            None => self.access.security.token()?,
        };
        let security = &self.access.security;
        let learners = self.has_learners().then(|| {
            let others = supervisor::learners(self.learners(), &address, security)?;
            Ok(Job { token: token.clone(), ..others })
        });
        let workers = has_workers.then(|| match self.on {
            Some(ExecutorKind::Ray) => ray::job(self.actors(), &address, token),
            _ => supervisor::job(self.actors(), &address, security),
        });
        // Ray actors may be on other machines, and they end one after the other.
        let is_slow = self.server.is_some() || self.on == Some(ExecutorKind::Ray);
        let grace = if is_slow { supervisor::GRACE } else { supervisor::GRACE_WITHOUT_TABLES };
        Supervisor::start(workers.into_iter().chain(learners).collect(), grace).map(Some)
    }
}
