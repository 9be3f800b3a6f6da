//! One line of a log.

/// The state of an agent after an episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogRow {
    /// The number of actions so far.
    pub steps: u64,
    /// The number of episodes so far.
    pub episode: u64,
    /// The sum of rewards so far.
    pub total_return: f64,
    /// The number of actions in the last episode.
    pub episode_len: u64,
    /// The sum of rewards in the last episode.
    pub episode_return: f64,
    /// The environment's own totals.
    pub totals: Vec<(String, f64)>,
}

impl LogRow {
    /// Returns the environment's total with the given name.
    #[must_use]
    pub fn total(&self, name: &str) -> Option<f64> {
        self.totals.iter().find(|(total, _)| total == name).map(|(_, value)| *value)
    }
}
