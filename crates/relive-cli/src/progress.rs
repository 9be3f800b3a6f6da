//! Progress bars on stderr, if that is a terminal.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relive_table::{CheckpointCounts, CheckpointProgress};

use crate::units::{bytes, count};

/// Interval between redraws.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The template of a bar with a message.
pub(crate) const PLAIN: &str = "{bar:30} {percent:>3} %  {msg}";

/// Creates a bar with a template that is known to be valid.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr()).with_style(style)
}

/// The progress of work on items and bytes.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar that begins with a description of the work.
    pub(crate) fn new(what: &'static str) -> Self {
        Self(bar(0, "{prefix} {bar:30} {percent:>3} %  {msg}").with_prefix(what))
    }

    /// Draws it.
    pub(crate) fn draw(&self, counts: CheckpointCounts) {
        let CheckpointCounts { items_total, items_done, bytes_total, bytes_done } = counts;
        // Progress is measured in bytes if there are any bytes to process.
        let (total, done) =
            if bytes_total > 0 { (bytes_total, bytes_done) } else { (items_total, items_done) };
        self.0.set_length(total);
        self.0.set_position(done.min(total));
        self.0.set_message(format!("{} items, {}", count(items_done), bytes(bytes_done)));
    }

    /// Removes it.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// A bar that follows counters until it is dropped.
pub(crate) struct Drawn {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drawn {
    pub(crate) fn new(what: &'static str, progress: Arc<CheckpointProgress>) -> Self {
        let (done, waiting) = channel();
        let thread = thread::spawn(move || {
            let bar = Bar::new(what);
            while waiting.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.draw(progress.counts());
            }
            bar.finish();
        });
        Self { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.done = None;
        // If the drawing thread panicked, the panic has been reported, and there is nothing left to draw.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs `work`, and draws its progress.
pub(crate) fn with_bar<T>(what: &'static str, work: impl FnOnce(Arc<CheckpointProgress>) -> T) -> T {
    let progress = Arc::<CheckpointProgress>::default();
    let _drawn = Drawn::new(what, Arc::clone(&progress));
    work(progress)
}
