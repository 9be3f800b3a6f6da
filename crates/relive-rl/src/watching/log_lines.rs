//! The newest log lines of a process, until they are published.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// The maximum number of lines: enough for an ordinary run and a final traceback.
const MAX_LINES: usize = 500;

/// The maximum size of all lines together. It is limited because new lines cause the page to be rewritten, up to four
/// times a second.
const MAX_BYTES: usize = 64 << 10;

/// The maximum size of a line; the rest is truncated.
const MAX_LINE_BYTES: usize = 4 << 10;

/// The newest log lines of a process. Clones are cheap and share the lines.
///
/// The buffer keeps at most 500 lines and 64 KiB, and drops the oldest lines: logging never waits for readers.
#[derive(Debug, Clone, Default)]
pub struct LogLines(Arc<LineBuffer>);

#[derive(Debug, Default)]
struct LineBuffer {
    tail: Mutex<Tail>,
    changed: Condvar,
}

#[derive(Debug)]
struct Tail {
    page: Page,
    bytes: usize,
    /// Whether there are lines that have not been taken yet.
    is_new: bool,
}

/// The newest lines, as they are published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// When the process began to count lines, in nanoseconds since 1970: a new process with the same name restarts the
    /// count.
    pub(super) began: u64,
    /// The number of the first kept line among all lines of the process.
    pub(super) first: u64,
    pub(super) lines: VecDeque<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) unix_ms: u64,
    pub(super) text: String,
}

impl Default for Tail {
    fn default() -> Tail {
        let began = u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX);
        let page = Page { began, first: 0, lines: VecDeque::new() };
        Tail { page, bytes: 0, is_new: false }
    }
}

impl LogLines {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> LogLines {
        LogLines::default()
    }

    /// Adds a logged text of one or more lines. Terminal colors are removed.
    pub fn push(&self, text: &str) {
        let unix_ms = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        let mut tail = self.0.tail.lock();
        for line in text.lines() {
            tail.push(Line { unix_ms, text: plain(line) });
        }
        drop(tail);
        self.0.changed.notify_all();
    }

    /// Waits for new lines, or until `has_ended` is set. Returns all kept lines if some are new.
    pub(super) fn next_within(&self, timeout: Duration, has_ended: &AtomicBool) -> Option<Page> {
        let mut tail = self.wait(timeout, |tail| tail.is_new || has_ended.load(Ordering::Relaxed));
        std::mem::take(&mut tail.is_new).then(|| tail.page.clone())
    }

    /// Waits until `has_ended` is set, but no longer than `timeout`.
    pub(super) fn rest(&self, timeout: Duration, has_ended: &AtomicBool) {
        drop(self.wait(timeout, |_| has_ended.load(Ordering::Relaxed)));
    }

    fn wait(&self, timeout: Duration, exists: impl Fn(&Tail) -> bool) -> MutexGuard<'_, Tail> {
        let until = Instant::now() + timeout;
        let mut tail = self.0.tail.lock();
        while !exists(&tail) && !self.0.changed.wait_until(&mut tail, until).timed_out() {}
        tail
    }

    /// Marks the lines as new again, because publishing them failed.
    pub(super) fn put_back(&self) {
        self.0.tail.lock().is_new = true;
    }

    /// Ends all waits.
    pub(super) fn end(&self, has_ended: &AtomicBool) {
        // A waiting thread holds this lock until it sleeps.
        let _tail = self.0.tail.lock();
        has_ended.store(true, Ordering::Relaxed);
        self.0.changed.notify_all();
    }
}

impl Tail {
    fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.page.lines.push_back(line);
        while self.page.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.page.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.page.first += 1;
        }
        self.is_new = true;
    }
}

/// Returns a line without color codes, truncated if it is too long.
fn plain(line: &str) -> String {
    let (mut text, mut characters) = (String::with_capacity(line.len()), line.chars());
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => drop(characters.find(char::is_ascii_alphabetic)),
            _ if text.len() + character.len_utf8() > MAX_LINE_BYTES => break,
            _ => text.push(character),
        }
    }
    text
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &LogLines) -> Option<(u64, Vec<String>)> {
        let page = lines.next_within(Duration::ZERO, &AtomicBool::new(false))?;
        Some((page.first, page.lines.into_iter().map(|line| line.text).collect()))
    }

    #[test]
    fn the_newest_lines_are_kept_within_both_bounds() {
        let lines = LogLines::new();
        assert_eq!(taken(&lines), None);
        lines.push("one\n\u{1b}[33mtwo\u{1b}[0m\n");
        assert_eq!(taken(&lines), Some((0, vec!["one".to_owned(), "two".to_owned()])));
        assert_eq!(taken(&lines), None, "nothing is new");
        for _ in 0..MAX_LINES {
            lines.push("more");
        }
        let (first, kept) = taken(&lines).unwrap();
        assert_eq!((first, kept.len()), (2, MAX_LINES));
        lines.push(&"é".repeat(MAX_LINE_BYTES));
        assert_eq!(taken(&lines).unwrap().1.last().unwrap().len(), MAX_LINE_BYTES);
        for _ in 0..100 {
            lines.push(&"x".repeat(MAX_LINE_BYTES));
        }
        let (first, kept) = taken(&lines).unwrap();
        assert_eq!((first, kept.len()), (2 + 500 + 1 + 100 - 16, MAX_BYTES / MAX_LINE_BYTES));
    }

    #[test]
    fn waiting_for_log_lines_ends_with_the_run() {
        let (lines, has_ended) = (LogLines::new(), AtomicBool::new(false));
        let hour = Duration::from_secs(3_600);
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| lines.next_within(hour, &has_ended));
            lines.end(&has_ended);
            assert!(waiting.join().unwrap().is_none());
        });
        lines.rest(hour, &has_ended);
    }
}
