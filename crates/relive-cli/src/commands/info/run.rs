//! The command: two looks, or a look for each tick.

use std::time::Duration;

use tokio::time::sleep;

use super::snapshot::Snapshot;
use super::{Options, json, text};
use crate::failure::Result;
use crate::output;

/// Time between the two looks that rates are computed from.
const MOMENT: Duration = Duration::from_millis(250);

/// Moves the cursor home and clears a terminal, as `clear` does.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Looks at the server, once or until interrupted.
pub(crate) async fn run(options: Options) -> Result {
    let client = options.target.connect().await?;
    let mut before = Snapshot::take(&client).await.map_err(|error| options.target.explain(error))?;
    let mut pause = MOMENT;
    loop {
        sleep(pause).await;
        let now = Snapshot::take(&client).await.map_err(|error| options.target.lost(error))?;
        output::line(&show(&options, &before, &now))?;
        let Some(interval) = options.watch else {
            return Ok(());
        };
        before = now;
        pause = interval;
    }
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
