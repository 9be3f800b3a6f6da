//! The command: choose, connect, fill, measure, tell.

use std::sync::Arc;

use tokio::time::Instant;

use super::client::{self, Work};
use super::payload::Payload;
use super::plan::{Plan, choose_table};
use super::result::Report;
use super::{Options, insert};
use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Loads the server and prints what it did.
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
    let clients = client::connect(&options).await?;
    plan.end = Instant::now() + options.seconds;
    let work = client::run(&options, clients, &plan).await?;
    let report = Report::new(&options, &table, &work);
    if !options.json {
        report.summary().iter().for_each(|line| output::complain(line));
    }
    output::line(&report.json(options.json))?;
    judge(&work, &options)
}

/// A run in which clients failed, or got nowhere, measured something else than was asked for.
fn judge(work: &Work, options: &Options) -> Result {
    let tallies = || [&work.inserts, &work.samples].into_iter().flatten();
    if let Some(error) = tallies().flat_map(|tally| &tally.errors).next() {
        return Err(Failure::from(error.clone()));
    }
    let stuck = |name: &str, advice: &str| {
        Failure::text(
            Kind::Timeout,
            format!("no {name} was completed within {:?}: {advice}", options.seconds),
        )
    };
    if work.samples.as_ref().is_some_and(|tally| tally.items == 0) {
        return Err(stuck(
            "batch of samples",
            "the table is too empty or its limiter waits for inserts; try --fill or mixed",
        ));
    }
    if work.inserts.as_ref().is_some_and(|tally| tally.items == 0) {
        return Err(stuck(
            "flush",
            "the table's limiter waits for samples; try mixed, a smaller --batch or more --seconds",
        ));
    }
    Ok(())
}
