//! Writing to stdout and stderr without panicking when nobody reads.

use std::io::{self, IsTerminal, Write};

/// Writes `text` and a line end to stdout, and hands it over at once.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Writes a line to stderr. When that fails, there is nowhere left to say it.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
