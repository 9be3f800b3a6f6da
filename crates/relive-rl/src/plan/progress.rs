//! The items of a plan, and functions that wait for them.

use std::time::{Duration, Instant};

use relive_flow::{ErrorKind, Flow, Monitor};

use crate::stop::Stop;
use crate::{Acted, Learnt, Result};

/// An item of a plan: its report.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The workers' reports.
    pub acted: Vec<Acted>,
    /// The learner's report.
    pub learnt: Option<Learnt>,
}

/// The interval at which a waiting run checks whether to stop.
const TIMEOUT: Duration = Duration::from_millis(100);

/// How long a run waits for its plan before it logs the reason. The time doubles with each message, up to a limit.
const SILENCE: Duration = Duration::from_secs(5);
const LONGEST_SILENCE: Duration = Duration::from_mins(10);

/// Returns the next progress of a plan, or `None` if the plan has ended or the run should stop. A long wait is logged,
/// and ends if `check` fails.
pub(crate) fn next_progress(
    plan: &mut Flow<Progress>,
    stop: &Stop,
    mut check: impl FnMut() -> Result<()>,
) -> Result<Option<Progress>> {
    let (mut silence, mut silent_until) = (SILENCE, Instant::now() + SILENCE);
    loop {
        check()?;
        if stop.is_stopped() {
            return Ok(None);
        }
        match plan.next_within(TIMEOUT) {
            None => return Ok(None),
            Some(Err(error)) if error.kind() == ErrorKind::Timeout => {}
            Some(progress) => return Ok(Some(progress?)),
        }
        if Instant::now() >= silent_until {
            silence = silence.saturating_mul(2).min(LONGEST_SILENCE);
            silent_until += silence;
            tracing::info!("{}", waiting(&plan.monitor()));
        }
    }
}

/// Describes the waiting operators of a plan.
fn waiting(plan: &Monitor) -> String {
    let causes = plan.waiting();
    let causes_text = causes.iter().map(|operator| {
        let seconds = operator.waits.unwrap_or_default().as_secs();
        format!("`{}` for {seconds} s ({} items so far)", operator.name, operator.items)
    });
    format!("the run is waiting for {}", causes_text.collect::<Vec<_>>().join(" and "))
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use relive_flow::{Order, Polled, Pull, Turn};

    use super::*;

    /// A source that stores the waker and never calls it.
    struct Silent;

    impl Pull<Progress> for Silent {
        fn poll_next(&mut self, turn: &mut Turn<'_>) -> Polled<Progress> {
            let _never_woken = turn.waker().clone();
            Poll::Pending
        }
    }

    #[test]
    fn progress_names_what_it_waits_for_and_obeys_a_stop() {
        let silent = |name| Flow::from_pull(name, Silent);
        let mut plan = Flow::union([silent("replay"), silent("workers")], Order::Ready);
        assert!(plan.next_within(Duration::ZERO).is_some_and(|item| item.is_err()));
        let actual = waiting(&plan.monitor());
        let expected =
            "the run is waiting for `replay` for 0 s (0 items so far) and `workers` for 0 s (0 items so far)";
        assert_eq!(actual, expected);
        let stop = Stop::default();
        stop.stop();
        assert!(next_progress(&mut plan, &stop, || Ok(())).unwrap().is_none());
        let failing = next_progress(&mut plan, &Stop::default(), || Err(crate::RlError::OtherLearner));
        assert!(matches!(failing, Err(crate::RlError::OtherLearner)));
    }
}
