//! Writes recorded episodes to a table, which may take minutes.

use std::time::{Duration, Instant};

use relive_env::View;

use crate::Result;
use crate::adders::Adder;
use crate::recorded::RecordedEpisode;
use crate::stop::Stop;

/// The interval between messages about the progress.
const NOTICE_EVERY: Duration = Duration::from_secs(5);

/// Writes all episodes through an adder, with the same extras at each step. Returns false if `stop` ends it early.
pub(super) fn write_all(
    episodes: &[RecordedEpisode],
    adder: &mut dyn Adder,
    extras: View<'_>,
    stop: &Stop,
) -> Result<bool> {
    let mut next_notice = Instant::now() + NOTICE_EVERY;
    for (written, episode) in episodes.iter().enumerate() {
        if stop.is_stopped() {
            return Ok(false);
        }
        if Instant::now() >= next_notice {
            next_notice += NOTICE_EVERY;
            tracing::info!(
                "writing the recorded episodes to the table: {written} of {} are written",
                episodes.len()
            );
        }
        episode.write(adder, extras)?;
    }
    Ok(true)
}
