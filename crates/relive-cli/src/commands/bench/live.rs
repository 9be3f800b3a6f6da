//! The counter that the progress bar shows while clients run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use tokio::time::Instant;

use super::options::Load;
use crate::progress;
use crate::units::{count, rate};

/// Interval between redraws.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The number of items that all clients have processed so far.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) inserted: AtomicU64,
    pub(super) sampled: AtomicU64,
}

/// A bar that fills as time passes; hidden unless stderr is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    start: Instant,
    load: Load,
}

impl Progress {
    pub(super) fn new(load: Load, seconds: Duration, is_hidden: bool) -> Self {
        let length = u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX);
        let bar = progress::bar(length, progress::PLAIN);
        if is_hidden {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { bar, start: Instant::now(), load }
    }

    /// Draws the bar.
    pub(super) fn draw(&self, live: &Live) {
        let elapsed = self.start.elapsed();
        let part = |name: &str, items: u64| {
            let per_second = items as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
            format!("{name} {} ({})", count(items), rate(per_second))
        };
        let mut parts = Vec::new();
        if self.load.inserts() {
            parts.push(part("inserted", live.inserted.load(Ordering::Relaxed)));
        }
        if self.load.samples() {
            parts.push(part("sampled", live.sampled.load(Ordering::Relaxed)));
        }
        self.bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        self.bar.set_message(parts.join(", "));
    }

    /// Removes the bar; the result replaces it.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
