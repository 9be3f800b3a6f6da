//! How a run goes, on stderr if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relive_rl::run::Report;

use super::figures::Watcher;

/// A bar with a line of figures.
pub(super) struct Shown(ProgressBar);

impl Shown {
    pub(super) fn new(steps: u64) -> Shown {
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
            .expect("the template is well-formed");
        Shown(ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr()).with_style(style))
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    pub(super) fn note(&self, report: &Report, watcher: &Watcher) {
        let Report::Actor(episode) = report else { return };
        let rate = episode.env_steps as f64 / episode.seconds.max(f64::MIN_POSITIVE);
        let shown = watcher.evaluator_return();
        let shown = shown.map_or_else(String::new, |mean| format!(" ({mean:.2} without exploring)"));
        self.0.set_position(episode.env_steps);
        self.0.set_message(format!(
            "episode {}: return {:.2}{shown}, {rate:.0} steps/s, {} learner steps",
            episode.episode,
            watcher.mean(),
            episode.learner_steps
        ));
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
