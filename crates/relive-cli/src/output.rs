//! Writes to stdout and stderr without panicking when the reader is gone.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_rl::watching::LogLines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a line of the log waits for a reader of stderr that has stopped.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The number of lines of the log that were lost since the reader of stderr stopped. Changes only under stderr's lock.
static LOST: AtomicU64 = AtomicU64::new(0);

/// A copy of stderr, if other code also reads it.
static CAPTURED: OnceLock<LogLines> = OnceLock::new();

/// Copies everything that is written to stderr from now on, including panics, to the returned lines.
pub(crate) fn capture() -> LogLines {
    let lines = CAPTURED.get_or_init(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            CAPTURED.get().into_iter().for_each(|lines| lines.push(&panic.to_string()));
            print(panic);
        }));
        LogLines::new()
    });
    lines.clone()
}

/// The log, on stderr; each write is one line. If nobody reads a full pipe, such as that of a paused pager, lines are
/// lost, because the program must not wait for its log.
pub(crate) struct Log {
    /// Returns the line that tells the number of lost lines.
    pub(crate) note: fn(u64) -> String,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        copy(bytes);
        let mut stderr = io::stderr().lock();
        let lost = LOST.load(Ordering::Relaxed);
        if !is_writable(&stderr, if lost == 0 { PATIENCE } else { Timespec::default() }) {
            LOST.store(lost + 1, Ordering::Relaxed);
        } else if lost == 0 {
            stderr.write_all(bytes)?;
        } else {
            LOST.store(0, Ordering::Relaxed);
            stderr.write_all(&[(self.note)(lost).as_bytes(), bytes].concat())?;
        }
        // Everything counts as written, because what has been copied must not be written again.
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Waits until `output` takes at least one line without blocking; returns whether it does. An output that has failed
/// counts as writable, since writing to it tells the error.
fn is_writable(output: &impl AsFd, patience: Timespec) -> bool {
    let mut outputs = [PollFd::new(output, PollFlags::OUT)];
    rustix::io::retry_on_intr(|| poll(&mut outputs, Some(&patience))) != Ok(0)
}

/// Copies what is written to stderr.
fn copy(bytes: &[u8]) {
    if let Some(lines) = CAPTURED.get() {
        lines.push(&String::from_utf8_lossy(bytes));
    }
}

/// Writes `text` and a newline to stdout, and flushes.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Writes a line to stderr. If that fails, there is nowhere left to report it.
pub(crate) fn print_error(text: &str) {
    let line = format!("{text}\n");
    copy(line.as_bytes());
    let _ = io::stderr().write_all(line.as_bytes());
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Returns lines in which every column is as wide as its widest cell; columns marked in `right` are right-aligned, all
/// others left-aligned.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], right: [bool; N]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(right).map(|((cell, width), right)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "items"], ["a", "1,000"], ["longer", "2"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, [false, true]), ["name    items", "a       1,000", "longer      2"]);
    }
}
