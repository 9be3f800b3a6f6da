//! The command: chooses a table, connects, fills the table, measures, and reports.

use std::sync::Arc;

use tokio::time::Instant;

use super::blocked_on::BlockedOn;
use super::client::{self, Work};
use super::payload::Payload;
use super::plan::{Plan, choose_table};
use super::result::Report;
use super::{Options, insert};
use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Loads the server and prints the results.
pub(crate) async fn run(options: Options) -> Result {
    let first = options.target.connect().await?;
    let table = choose_table(&options, &first).await?;
    let mut plan = Plan {
        table: Arc::clone(&table),
        batch: options.batch,
        item_bytes: options.bytes,
        payload: Arc::new(Payload::new(options.bytes)),
        live: Arc::default(),
        end: Instant::now(),
    };
    insert::fill(&first, &plan, options.fill).await?;
    let clients = client::connect(&options, &plan).await?;
    let transport = clients.transport.unwrap_or(first.transport());
    plan.end = Instant::now() + options.seconds;
    let (work, blocked_on) = tokio::join!(
        client::run(&options, clients, &plan),
        BlockedOn::find(&first, &plan, options.load, options.seconds),
    );
    let work = work?;
    // By default, a client waits longer for its server to return than a run lasts.
    let exists = first.with_timeout(options.target.timeout).server_info().await;
    let report = Report::new(&options, &table, transport, &work);
    if !options.json {
        report.summary().iter().for_each(|line| output::print_error(line));
    }
    output::line(&report.json(options.json))?;
    check_progress(&work, &options, &blocked_on)?;
    exists.map(drop).map_err(|error| options.target.lost(error))
}

/// Fails if clients failed or made no progress, because the run then did not measure the requested load.
fn check_progress(work: &Work, options: &Options, blocked_on: &BlockedOn) -> Result {
    let tallies = || [&work.inserts, &work.samples].into_iter().flatten();
    if let Some(error) = tallies().flat_map(|tally| &tally.errors).next() {
        return Err(Failure::from(error.clone()));
    }
    let stuck = |name: &str, why: &str, advice: &str| {
        let text = format!("no {name} completed within {:?}: {why}; {advice}", options.seconds);
        Err(Failure::text(Kind::Timeout, text))
    };
    if work.inserts.as_ref().is_some_and(|tally| tally.items == 0) {
        return match (&blocked_on.memory, &blocked_on.inserts) {
            (Some(memory), _) => stuck("flush", memory, MORE_MEMORY),
            (None, Some(limiter)) => stuck("flush", limiter, MORE_SAMPLES),
            (None, None) => stuck("flush", "the server blocks no insert", MORE_TIME),
        };
    }
    if work.samples.as_ref().is_some_and(|tally| tally.items == 0) {
        let limiter = blocked_on.samples.as_deref().unwrap_or("the server blocks no sample");
        let advice = if blocked_on.samples.is_some() { MORE_INSERTS } else { MORE_TIME };
        return stuck("batch of samples", limiter, advice);
    }
    Ok(())
}

const MORE_MEMORY: &str = "remove items, or raise the server's --max-bytes";

const MORE_SAMPLES: &str = "try mixed, a smaller --batch or a longer --seconds";

const MORE_INSERTS: &str = "try --fill or mixed";

const MORE_TIME: &str = "try a smaller --batch or a longer --seconds";
