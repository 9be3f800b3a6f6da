//! The performance of agents, as numbers from 0 to 1.

use relive_env::ReferenceScores;
use relive_env::bsuite::{self, BsuiteId, Run};

use super::plans::Plan;
use crate::commands::rl::figures::Figures;
use crate::failure::{Failure, Result};

/// A finished run.
pub(super) struct Scored<'a> {
    pub(super) plan: &'a Plan,
    pub(super) figures: Figures,
    /// The score by bsuite's rules, or computed from the return relative to the returns of a random policy and an
    /// expert; `None` if neither is known.
    pub(super) score: Option<f64>,
}

/// Returns the finished runs with their scores, except for those without a complete episode, which have no figures.
pub(super) fn of(plans: &[Plan]) -> Result<Vec<Scored<'_>>> {
    let mut all = Vec::new();
    for plan in plans {
        if let Some(figures) = plan.begun()?.filter(|figures| figures.episode_return().is_some()) {
            let score = score(plan, &figures)?;
            all.push(Scored { plan, figures, score });
        }
    }
    Ok(all)
}

fn score(plan: &Plan, figures: &Figures) -> Result<Option<f64>> {
    match plan.about.environment.parse::<BsuiteId>() {
        // bsuite only scores agents that act.
        Ok(_) if figures.is_from_data() => Ok(None),
        Ok(id) => by_bsuite(plan, id).map(Some),
        Err(_) => {
            let reached = figures.summary.evaluator_return.or(figures.episode_return());
            let scores = ReferenceScores::of(&plan.about.environment).zip(reached);
            Ok(scores.map(|(scores, reached)| scores.normalized(reached) / 100.0))
        }
    }
}

/// Returns the score by bsuite's rules for an experiment that consists of this run alone.
fn by_bsuite(plan: &Plan, id: BsuiteId) -> Result<f64> {
    let path = plan.folder.join(id.csv_file_name());
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
    let rows = bsuite::read_csv(&text).map_err(|error| Failure::at(&path, error))?;
    bsuite::score(id.experiment(), &[Run { id, rows }]).map_err(|error| Failure::at(&path, error))
}

/// Returns the minimum, mean and maximum of some numbers, or `None` if there are none.
#[expect(clippy::cast_precision_loss, reason = "seeds are few")]
pub(super) fn range(values: &[f64]) -> Option<[f64; 3]> {
    let least = values.iter().copied().reduce(f64::min)?;
    let greatest = values.iter().copied().reduce(f64::max)?;
    Some([least, values.iter().sum::<f64>() / values.len() as f64, greatest])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_covers_all_seeds() {
        assert_eq!(range(&[3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(range(&[]), None);
    }
}
