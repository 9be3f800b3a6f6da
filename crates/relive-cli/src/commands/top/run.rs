//! The command, which takes a snapshot for each tick, and handles keys between ticks.

use std::time::Duration;

use clap::Args;
use relive_client::Client;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::state::{END, Top};
use super::terminal::{Keys, Screen};
use super::view;
use crate::commands::info::snapshot::Snapshot;
use crate::failure::{Failure, Result};
use crate::output;
use crate::server::Target;
use crate::units::parse_seconds;

/// Options of `relive top`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Time between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
}

/// Shows the server until the user quits.
pub(crate) async fn run(options: Options) -> Result {
    if !output::stdout_is_terminal() {
        return Err(Failure::usage(
            "`relive top` requires a terminal; for files and pipes, use `relive info --watch`",
        ));
    }
    let client = options.target.connect().await?;
    let first = Snapshot::take(&client).await.map_err(|error| options.target.explain(error))?;
    let mut top = Top::new(&options.target.address);
    top.take(Ok(first));
    let (mut screen, mut keys) = (Screen::take()?, Keys::listen()?);
    // A rate over less than an interval would be inaccurate.
    let mut ticks = interval_at(Instant::now() + options.interval, options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !top.is_done() {
        screen.draw(|frame| view::draw(frame, &top))?;
        tokio::select! {
            pressed = keys.next() => top.press(pressed.unwrap_or(END)),
            snapshot = snapshot(&client, &mut ticks) => top.take(snapshot),
        }
    }
    Ok(())
}

async fn snapshot(client: &Client, ticks: &mut tokio::time::Interval) -> relive_client::Result<Snapshot> {
    ticks.tick().await;
    Snapshot::take(client).await
}
