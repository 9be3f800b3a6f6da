//! Finds a job and connects to its server.

use std::time::Duration;

use clap::Args;
use relive_client::ClientOptions;
use relive_client::blocking::Client;

use crate::failure::{Failure, Kind, Result};
use crate::jobs::{self, Record};
use crate::security::ClientSecurity;
use crate::server::Target;
use crate::units::parse_seconds;

/// Which job.
#[derive(Debug, Args)]
pub(super) struct JobSelector {
    /// Name of a job, as `relive job ls` lists it, or the address of the server with a run's tables, host:port
    /// [default: the only job on this machine]
    #[arg(value_name = "JOB")]
    job: Option<String>,
    #[command(flatten)]
    access: JobAccess,
}

/// How to reach servers.
#[derive(Debug, Clone, Args)]
pub(super) struct JobAccess {
    /// How long to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    security: ClientSecurity,
}

/// A job that was found.
pub(super) struct FoundJob {
    /// The job's name on this machine.
    pub(super) name: String,
    /// The job's record on this machine.
    pub(super) record: Option<Record>,
    pub(super) client: Client,
    timeout: Duration,
}

impl JobSelector {
    /// Finds the job and checks that its server answers.
    ///
    /// # Errors
    /// The job does not exist or has ended, or its server does not answer or refuses this client.
    pub(super) fn find(&self) -> Result<FoundJob> {
        match self.record()? {
            Some(record) => self.access.to_job(record),
            None => self.access.to_address(self.job.as_deref().unwrap_or_default()),
        }
    }

    /// Returns the job's record on this machine, or `None` if an address is given.
    ///
    /// # Errors
    /// The job does not exist, or has ended.
    pub(super) fn record(&self) -> Result<Option<Record>> {
        let Some(job) = &self.job else { return only().map(Some) };
        match jobs::named(job) {
            Some(record) if record.process.has_ended() => {
                record.forget();
                let pid = record.process.pid;
                let text = format!(
                    "job {job} is over: its process {pid} exited without recording its end, which means that it was killed"
                );
                Err(Failure::text(Kind::Runtime, text))
            }
            Some(record) => Ok(Some(record)),
            None if job.contains(':') => Ok(None),
            None => {
                let advice = "`relive job ls` lists the jobs; for a run on another machine, give host:port";
                Err(Failure::usage(format!("there is no job {job} on this machine; {advice}")))
            }
        }
    }
}

/// Returns the only job on this machine.
fn only() -> Result<Record> {
    let mut running = jobs::all();
    running.retain(|record| !record.process.has_ended());
    match running.len() {
        0 => Err(Failure::usage(
            "no job is running on this machine; for a run on another machine, give host:port",
        )),
        1 => Ok(running.remove(0)),
        _ => {
            let names: Vec<&str> = running.iter().map(|record| &record.job.name[..]).collect();
            Err(Failure::usage(format!(
                "this machine has several jobs; name one of them: {}",
                names.join(", ")
            )))
        }
    }
}

impl JobAccess {
    /// Connects to a job on this machine.
    pub(super) fn to_job(&self, record: Record) -> Result<FoundJob> {
        let (address, token) = (record.job.address.clone(), record.job.token.clone());
        let client = self.client(&address, self.security.clone().or_token(token))?;
        Ok(FoundJob { name: record.job.name.clone(), record: Some(record), client, timeout: self.timeout })
    }

    /// Connects to the run at an address.
    pub(super) fn to_address(&self, address: &str) -> Result<FoundJob> {
        let client = self.client(address, self.security.clone())?;
        Ok(FoundJob { name: address.to_owned(), record: None, client, timeout: self.timeout })
    }

    /// Returns a client for a server that answers.
    fn client(&self, address: &str, security: ClientSecurity) -> Result<Client> {
        let options = security.apply(ClientOptions::default().timeout(self.timeout))?;
        let target = Target { address: address.to_owned(), timeout: self.timeout, security };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::text(Kind::Runtime, error))?;
        runtime.block_on(async {
            let client = target.connect().await?;
            client.server_info().await.map(drop).map_err(|error| target.explain(error))
        })?;
        Client::connect_with(address, options).map_err(|error| Failure::usage(format!("{address}: {error}")))
    }
}

impl FoundJob {
    /// Returns whether the job's process has verifiably ended, or its server no longer answers.
    pub(super) fn is_gone(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.process.has_ended())
            || self.client.with_timeout(self.timeout).server_info().is_err()
    }
}
