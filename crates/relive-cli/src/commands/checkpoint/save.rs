//! `relive checkpoint save`: makes a running server write a checkpoint.

use std::time::Duration;

use clap::Args;
use relive_client::{CheckpointStatus, Client, FinishedCheckpoint, RunningCheckpoint, SavedCheckpoint};
use serde::Serialize;
use tokio::time::interval;

use super::common::print_json;
use crate::failure::Result;
use crate::output;
use crate::progress::{Bar, TICK};
use crate::server::Target;
use crate::units::{bytes, time};

/// Options of `relive checkpoint save`.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    location: &'a str,
    written_bytes: Option<u64>,
    total_bytes: Option<u64>,
    took_s: Option<f64>,
    longest_pause_s: Option<f64>,
}

/// The maximum duration of a checkpoint, because `--timeout` applies only to answers that should arrive at once. The
/// server's status shows whether the checkpoint is still being written.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Requests a checkpoint and waits until it is written.
pub(super) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    // This call, which is answered immediately, shows before the long wait that there is a server at the address.
    client.server_info().await.map_err(|error| options.target.explain(error))?;
    let bar = Bar::new("writing");
    let location = wait(&client, &bar).await;
    bar.finish();
    let location = location.map_err(|error| options.target.lost(error))?;
    let status = client.checkpoint_status().await.ok();
    let details = status.as_ref().and_then(|status| details(status, &location));
    if options.json {
        return print_json(&Document {
            location: &location,
            written_bytes: details.map(|(_, saved)| saved.written_bytes),
            total_bytes: details.map(|(_, saved)| saved.total_bytes),
            took_s: details.map(|(finished, _)| finished.took.as_secs_f64()),
            longest_pause_s: details.map(|(finished, _)| finished.longest_pause.as_secs_f64()),
        });
    }
    output::line(&text(&location, details))?;
    Ok(())
}

/// Waits for the answer, polling the server's status in the meantime. dm-reverb's servers have no status.
async fn wait(client: &Client, bar: &Bar) -> relive_client::Result<String> {
    let patient = client.with_timeout(LONGEST);
    let mut answer = std::pin::pin!(patient.checkpoint());
    let mut ticks = interval(TICK);
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ = ticks.tick() => {}
        }
        let running = tokio::select! {
            answer = &mut answer => return answer,
            status = client.checkpoint_status() => status.ok().and_then(|status| status.running),
        };
        if let Some(RunningCheckpoint { counts, .. }) = running {
            bar.draw(counts);
        }
    }
}

/// Returns the server's report on the checkpoint at `location`, unless a later checkpoint replaced it.
fn details<'a>(
    status: &'a CheckpointStatus,
    location: &str,
) -> Option<(&'a FinishedCheckpoint, &'a SavedCheckpoint)> {
    let finished = status.last_saved.as_ref()?;
    Some((finished, finished.saved()?)).filter(|(_, saved)| saved.location == location)
}

fn text(location: &str, details: Option<(&FinishedCheckpoint, &SavedCheckpoint)>) -> String {
    let Some((finished, saved)) = details else { return location.to_owned() };
    format!(
        "{location}\n{} of {} written in {}; no client waited longer than {:.1} ms for it",
        bytes(saved.written_bytes),
        bytes(saved.total_bytes),
        time(finished.took),
        finished.longest_pause.as_secs_f64() * 1e3,
    )
}
