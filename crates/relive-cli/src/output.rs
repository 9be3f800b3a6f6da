//! Writes to stdout and stderr without panicking when the reader is gone.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use relive_rl::watching::LogLines;

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

/// Stderr; each write consists of whole lines.
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(lines) = CAPTURED.get() {
            lines.push(&String::from_utf8_lossy(bytes));
        }
        // Writes all bytes at once, because those that have been copied must not be written again.
        io::stderr().write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
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
    let _ = Stderr.write_all(format!("{text}\n").as_bytes());
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
