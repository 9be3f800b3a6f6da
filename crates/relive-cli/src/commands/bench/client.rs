//! The clients of a run, side by side.

use std::future::Future;

use relive_client::Client;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::Options;
use super::live::{Progress, TICK};
use super::plan::Plan;
use super::tally::Tally;
use super::{insert, sample};
use crate::failure::{Failure, Kind, Result};

/// What the inserting and the sampling clients did.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) inserts: Option<Tally>,
    pub(super) samples: Option<Tally>,
}

/// Connects as many clients as the run needs, so that connecting is not measured.
pub(super) async fn connect(options: &Options) -> Result<Vec<Client>> {
    let kinds = u32::from(options.load.inserts()) + u32::from(options.load.samples());
    let mut clients = Vec::new();
    for _ in 0..options.clients * kinds {
        let client = options.target.client_by(options.transport.into())?;
        client.server_info().await?;
        client.negotiate().await?;
        clients.push(client);
    }
    Ok(clients)
}

/// Runs all clients to the end of the plan.
pub(super) async fn run(options: &Options, mut clients: Vec<Client>, plan: &Plan) -> Result<Work> {
    let progress = Progress::new(options.load, options.seconds, options.json);
    let samplers = options.load.samples().then(|| {
        let own = if options.load.inserts() { clients.len() / 2 } else { 0 };
        start(clients.split_off(own), plan, sample::run)
    });
    let inserters = options.load.inserts().then(|| start(clients, plan, insert::run));
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

/// Gives each client a thread of its own. Actors and learners are programs of their own, too: one that encodes or
/// decodes must not hold up another.
fn start<F>(clients: Vec<Client>, plan: &Plan, run: fn(Client, Plan) -> F) -> JoinSet<Tally>
where
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
        let failed =
            |error| Failure::text(Kind::Runtime, format!("a client of the bench broke off: {error}"));
        sum.merge(tally.map_err(failed)?);
    }
    Ok(Some(sum))
}
