//! The logs of an agent, as data points.

use crate::bsuite::{BsuiteId, LogRow};
use crate::error::{EnvError, Mismatch};

/// The log of an agent in the environment with one identifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The environment.
    pub id: BsuiteId,
    /// The rows of the log, in the order in which they were written.
    pub rows: Vec<LogRow>,
}

/// One row of one run.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) id: BsuiteId,
    pub(super) row: &'a LogRow,
}

impl Point<'_> {
    /// Returns the environment's total with the given name.
    pub(super) fn total(&self, name: &str) -> Result<f64, EnvError> {
        self.row.total(name).ok_or_else(|| {
            let expected = format_args!("a column {name}");
            EnvError::Setting(Mismatch::boxed(self.id, expected, "a log without it"))
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "episodes are counted by the thousand")]
    pub(super) fn episodes(&self) -> f64 {
        self.row.episode as f64
    }
}

/// Returns the rows of an experiment's runs, up to the number of episodes that are scored.
pub(super) fn points(runs: &[Run], most_episodes: u64) -> Vec<Point<'_>> {
    let rows = runs.iter().flat_map(|run| run.rows.iter().map(|row| Point { id: run.id, row }));
    rows.filter(|point| point.row.episode <= most_episodes).collect()
}

/// Returns points grouped by the value of a key, in order of first appearance.
pub(super) fn groups<'a>(points: &[Point<'a>], key: impl Fn(BsuiteId) -> f64) -> Vec<Vec<Point<'a>>> {
    let mut groups: Vec<(f64, Vec<Point<'a>>)> = Vec::new();
    for point in points {
        let value = key(point.id);
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, group)) => group.push(*point),
            None => groups.push((value, vec![*point])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
