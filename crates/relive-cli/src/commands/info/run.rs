//! The command, which takes two snapshots, or one for each tick.

use clap::Args;
use std::time::Duration;

use relive_client::{Client, ServerStanding, ServerState};
use tokio::time::sleep;

use super::snapshot::Snapshot;
use super::{json, text};
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::server::Target;
use crate::units::parse_seconds;

/// Options of `relive info`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Print JSON; with --watch, one line for each update
    #[arg(long)]
    json: bool,
    /// Repeat at this interval in seconds [default: 2] until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_seconds)]
    watch: Option<Duration>,
}

/// The time between the two snapshots from which rates are computed.
const MOMENT: Duration = Duration::from_millis(250);

/// Moves the cursor home and clears a terminal, as `clear` does.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Shows the server, once or until interrupted.
pub(crate) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    let mut before = Snapshot::take(&client).await.map_err(|error| options.target.explain(error))?;
    let mut pause = MOMENT;
    loop {
        sleep(pause).await;
        let now = Snapshot::take(&client).await.map_err(|error| options.target.lost(error))?;
        output::line(&show(&options, &before, &now))?;
        let Some(interval) = options.watch else {
            return expect_all(&client);
        };
        before = now;
        pause = interval;
    }
}

/// Fails if a server is unreachable, because the output then covers only the servers that answer.
fn expect_all(client: &Client) -> Result {
    let servers = client.servers();
    let is_away = |server: &&ServerState| server.standing == ServerStanding::Away;
    let away: Vec<&ServerState> = servers.iter().filter(is_away).collect();
    let Some(first) = away.first() else { return Ok(()) };
    let text = format!(
        "{} of {} servers do not answer, and the output excludes them: {}: {}; check that they are running",
        away.len(),
        servers.len(),
        first.address,
        first.reason
    );
    Err(Failure::text(Kind::Unreachable, text))
}

fn show(options: &Options, before: &Snapshot, now: &Snapshot) -> String {
    let address = &options.target.address;
    match (options.json, options.watch) {
        (true, None) => json::pretty(address, before, now),
        (true, Some(_)) => json::line(address, before, now),
        (false, Some(_)) if output::stdout_is_terminal() => {
            format!("{CLEAR}{}", text::report(address, before, now))
        }
        (false, _) => text::report(address, before, now),
    }
}
