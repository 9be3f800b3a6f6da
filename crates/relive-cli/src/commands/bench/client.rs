//! The concurrent clients of a run.

use std::future::Future;

use relive_client::{Client, TrajectoryWriter, Transport};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::interval;

use super::Options;
use super::live::{Progress, TICK};
use super::plan::Plan;
use super::tally::Tally;
use super::{insert, sample};
use crate::failure::{Failure, Kind, Result};

/// The work of the inserting and the sampling clients.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) inserts: Option<Tally>,
    pub(super) samples: Option<Tally>,
}

/// The clients of a run, of both kinds.
#[derive(Debug)]
pub(super) struct Clients {
    writers: Vec<TrajectoryWriter>,
    samplers: Vec<Client>,
    /// How the clients reach the server.
    pub(super) transport: Option<Transport>,
}

/// Connects as many clients as the run needs, so that connecting is not measured.
pub(super) async fn connect(options: &Options, plan: &Plan) -> Result<Clients> {
    let (mut opening, mut samplers) = (Vec::new(), Vec::new());
    let mut transport = None;
    for _ in 0..options.clients {
        if options.load.inserts() {
            let client = connect_one(options).await?;
            transport = Some(client.transport());
            opening.push(tokio::spawn(insert::open(client, plan.clone())));
        }
        if options.load.samples() {
            let client = connect_one(options).await?;
            transport = Some(client.transport());
            samplers.push(client);
        }
    }
    let mut writers = Vec::new();
    for writer in opening {
        writers.push(writer.await.map_err(|error| task_failure(&error))??);
    }
    Ok(Clients { writers, samplers, transport })
}

async fn connect_one(options: &Options) -> Result<Client> {
    let client = options.target.client_by(options.transport.into())?;
    client.server_info().await?;
    client.negotiate().await?;
    Ok(client)
}

/// Runs all clients to the end of the plan.
pub(super) async fn run(options: &Options, clients: Clients, plan: &Plan) -> Result<Work> {
    let progress = Progress::new(options.load, options.seconds, options.json);
    let Clients { writers, samplers, .. } = clients;
    let samplers = options.load.samples().then(|| start(samplers, plan, sample::run));
    let inserters = options.load.inserts().then(|| start(writers, plan, insert::run));
    let work = async {
        let inserts = gather(inserters).await?;
        Ok(Work { inserts, samples: gather(samplers).await? })
    };
    let mut work = std::pin::pin!(work);
    let mut ticks = interval(TICK);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = ticks.tick() => progress.draw(&plan.live),
        }
    };
    progress.finish();
    result
}

/// Runs each client on its own thread. In practice, actors and learners are separate programs, so a client that encodes
/// or decodes must not block another one.
fn start<C, F>(clients: Vec<C>, plan: &Plan, run: fn(C, Plan) -> F) -> JoinSet<Tally>
where
    C: Send + 'static,
    F: Future<Output = Tally> + 'static,
{
    let mut running = JoinSet::new();
    for client in clients {
        let (plan, runtime) = (plan.clone(), Handle::current());
        running.spawn_blocking(move || runtime.block_on(run(client, plan)));
    }
    running
}

async fn gather(clients: Option<JoinSet<Tally>>) -> Result<Option<Tally>> {
    let Some(mut clients) = clients else {
        return Ok(None);
    };
    let mut sum = Tally::new();
    while let Some(tally) = clients.join_next().await {
        sum.merge(tally.map_err(|error| task_failure(&error))?);
    }
    Ok(Some(sum))
}

fn task_failure(error: &JoinError) -> Failure {
    Failure::text(Kind::Runtime, format!("a benchmark client failed: {error}"))
}
