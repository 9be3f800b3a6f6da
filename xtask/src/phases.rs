//! Runs named phases, times them, and prints a summary at the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Runs phases one after the other and records how long each took.
#[derive(Default)]
pub(crate) struct Phases {
    done: Vec<(&'static str, Duration)>,
}

impl Phases {
    /// Runs one phase. If the phase fails, prints the summary of all phases so far, and returns an error that names the
    /// phase.
    pub(crate) fn run(&mut self, name: &'static str, phase: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n==> {name}");
        let start = Instant::now();
        let result = phase();
        self.done.push((name, start.elapsed()));
        if result.is_err() {
            eprintln!("\n{}", self.summary());
        }
        result.with_context(|| format!("phase `{name}` failed"))
    }

    /// Returns one line per phase, then the total.
    pub(crate) fn summary(&self) -> String {
        let total = ("total", self.done.iter().map(|(_, took)| *took).sum());
        let lines = self.done.iter().chain([&total]);
        lines.map(|(name, took)| format!("{name:<24}{:>8.1} s\n", took.as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_lists_phases_and_total() {
        let done = vec![("first", Duration::from_millis(1500)), ("second", Duration::from_secs(60))];
        let summary = Phases { done }.summary();
        let lines: Vec<Vec<&str>> = summary.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [["first", "1.5", "s"], ["second", "60.0", "s"], ["total", "61.5", "s"]]);
    }

    #[test]
    fn a_failing_phase_is_named() {
        let error = Phases::default().run("docs", || anyhow::bail!("no docs")).unwrap_err();
        assert_eq!(format!("{error:#}"), "phase `docs` failed: no docs");
    }
}
