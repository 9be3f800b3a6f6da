//! The components of scores.

use super::run::Point;
use crate::error::EnvError;

#[expect(clippy::cast_precision_loss, reason = "a few hundred values")]
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the share of the values for which a condition holds.
pub(super) fn fraction(holds: impl IntoIterator<Item = bool>) -> f64 {
    let values: Vec<f64> = holds.into_iter().map(|holds| f64::from(u8::from(holds))).collect();
    mean(&values)
}

/// Returns the standard deviation of a population.
fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

/// Returns half of the mean, plus half of the difference between the mean and the standard deviation.
pub(super) fn mean_and_spread(scores: &[f64]) -> f64 {
    let centre = mean(scores);
    0.5 * (centre.clamp(0.0, 1.0) + (centre - deviation(scores)).clamp(0.0, 1.0))
}

/// Returns the mean of a value per episode, as of the last logged episode.
pub(super) fn per_episode_at_end(
    points: &[Point<'_>],
    value: impl Fn(&Point<'_>) -> Result<f64, EnvError>,
) -> Result<f64, EnvError> {
    let Some(last) = points.iter().max_by_key(|point| point.row.episode) else { return Ok(0.0) };
    let at_end = points.iter().filter(|point| point.row.episode == last.row.episode);
    let values: Vec<f64> = at_end.map(value).collect::<Result<_, _>>()?;
    Ok(mean(&values) / last.episodes())
}

/// Returns, as a score, how far an agent's regret is below a baseline's.
pub(super) fn regret_score(
    points: &[Point<'_>],
    baseline: f64,
    regret: impl Fn(&Point<'_>) -> Result<f64, EnvError>,
) -> Result<f64, EnvError> {
    let regret = per_episode_at_end(points, regret)?;
    Ok(((baseline - regret) / baseline).clamp(0.0, 1.0))
}

/// Returns the share of the identifiers for which an episode is better than `good`.
pub(super) fn solved(points: &[Point<'_>], good: f64) -> Result<f64, EnvError> {
    let runs = super::run::groups(points, |id| f64::from(id.index()));
    let best = |run: &Vec<Point<'_>>| {
        run.iter().try_fold(f64::NEG_INFINITY, |best, point| Ok(best.max(point.total("best_episode")?)))
    };
    let best: Vec<f64> = runs.iter().map(best).collect::<Result<_, EnvError>>()?;
    Ok(fraction(best.into_iter().map(|best| best > good)))
}
