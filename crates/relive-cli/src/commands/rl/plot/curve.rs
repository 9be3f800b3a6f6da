//! Computes curves from the logs of runs.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;

use super::kinds;
use crate::commands::rl::runs::About;
use crate::failure::{Failure, Result};

/// Positions at which the curves of seeds are compared.
const PLACES: u32 = 200;

/// The horizontal axis of learning curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Axis {
    /// Steps in the environment, of all actors
    Steps,
    /// Steps of the learner
    LearnerSteps,
    /// Time since the run began
    Seconds,
}

/// Whose episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EpisodeSource {
    /// Episodes that the agent learns from
    Actor,
    /// Episodes of evaluations
    Evaluator,
}

/// Runs that differ only in their seeds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    /// Positions, each with the minimum, mean and maximum over all seeds.
    pub(super) points: Vec<(f64, [f64; 3])>,
    pub(super) seeds: usize,
}

/// Positions and values.
type Curve = Vec<(f64, f64)>;

/// A line of a log.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Line {
    env_steps: f64,
    learner_steps: f64,
    seconds: f64,
    episode_return: Option<f64>,
}

/// A description of the curves to draw; unspecified properties have defaults.
#[derive(Debug, Clone, Copy)]
pub(super) struct CurveSelection {
    /// Whose episodes to show: by default, those of the actors, or those of the evaluator if not all runs have acted.
    pub(super) episodes_of: Option<EpisodeSource>,
    /// The horizontal axis: by default, steps in the environment, or the learner's steps if a run learns from data and
    /// takes no steps in the environment.
    pub(super) axis: Option<Axis>,
    /// The number of episodes over which each point is averaged.
    pub(super) smooth: usize,
}

impl CurveSelection {
    /// Returns the defaults.
    pub(super) fn smoothed(smooth: usize) -> CurveSelection {
        CurveSelection { episodes_of: None, axis: None, smooth }
    }
}

/// Returns the curves of runs, grouped by kind; the source of their episodes; and the axis.
pub(super) fn groups(
    runs: &[(PathBuf, About)],
    selection: CurveSelection,
) -> Result<(Vec<Group>, EpisodeSource, Axis)> {
    let all_have =
        |episodes_of: EpisodeSource| runs.iter().all(|(folder, _)| folder.join(episodes_of.file()).is_file());
    let is_shown = || !all_have(EpisodeSource::Actor) && all_have(EpisodeSource::Evaluator);
    let episodes_of = selection
        .episodes_of
        .unwrap_or_else(|| if is_shown() { EpisodeSource::Evaluator } else { EpisodeSource::Actor });
    let logs = runs.iter().map(|(folder, _)| read(folder, episodes_of)).collect::<Result<Vec<_>>>()?;
    let has_acted = |lines: &Vec<Line>| lines.iter().any(|line| line.env_steps > 0.0);
    let axis = match selection.axis {
        Some(axis) => axis,
        None if logs.iter().all(has_acted) => Axis::Steps,
        None => Axis::LearnerSteps,
    };
    let mut kinds: Vec<(String, Vec<Curve>)> = Vec::new();
    for (name, lines) in kinds::names(runs.iter().map(|(_, about)| about)).into_iter().zip(&logs) {
        let curve = smoothed(lines, axis, selection.smooth);
        match kinds.iter_mut().find(|(other, _)| *other == name) {
            Some((_, curves)) => curves.push(curve),
            None => kinds.push((name, vec![curve])),
        }
    }
    Ok((kinds.into_iter().map(|(name, curves)| group_of(name, &curves)).collect(), episodes_of, axis))
}

impl EpisodeSource {
    /// Returns the log of the environments' episodes.
    fn file(self) -> &'static str {
        match self {
            EpisodeSource::Actor => "actor.jsonl",
            EpisodeSource::Evaluator => "evaluator.jsonl",
        }
    }
}

fn read(folder: &Path, episodes_of: EpisodeSource) -> Result<Vec<Line>> {
    let path = folder.join(episodes_of.file());
    let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::at(&path, missing(folder, episodes_of)),
        _ => Failure::at(&path, error),
    })?;
    let mut lines: Vec<Line> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // The last line of a killed run may be incomplete.
        let line: Line = match serde_json::from_str(line) {
            Err(_) if number + 1 == text.lines().count() => break,
            line => line.map_err(|error| Failure::at(&path, format_args!("line {}: {error}", number + 1)))?,
        };
        // A run on a server that was resumed may report the episodes that followed its last saved state a second time.
        let moment = |line: &Line| [line.env_steps, line.learner_steps];
        while lines.last().is_some_and(|last| moment(last) > moment(&line)) {
            lines.pop();
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Returns the reason why a run has no such log.
fn missing(folder: &Path, episodes_of: EpisodeSource) -> &'static str {
    let has_others = ["learner.jsonl", EpisodeSource::Actor.file(), EpisodeSource::Evaluator.file()];
    match (has_others.iter().any(|name| folder.join(name).is_file()), episodes_of) {
        (false, _) => "this run has no JSON logs; --logs jsonl writes them",
        (true, EpisodeSource::Actor) => {
            "this run has no complete episode, or it learns from data; --of evaluator draws its evaluations, if it has any"
        }
        (true, EpisodeSource::Evaluator) => "this run has no evaluations; --evaluate-every adds them",
    }
}

/// Moving means over the latest episodes.
#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn smoothed(lines: &[Line], axis: Axis, smooth: usize) -> Curve {
    let (mut window, mut sum) = (VecDeque::with_capacity(smooth), 0.0);
    let mut points = Vec::with_capacity(lines.len());
    for line in lines {
        let Some(value) = line.episode_return else { continue };
        window.push_back(value);
        sum += value;
        if window.len() > smooth {
            sum -= window.pop_front().unwrap_or_default();
        }
        let at = match axis {
            Axis::Steps => line.env_steps,
            Axis::LearnerSteps => line.learner_steps,
            Axis::Seconds => line.seconds,
        };
        points.push((at, sum / window.len() as f64));
    }
    points
}

/// Returns the minimum, mean and maximum, from the latest beginning of a curve to the earliest end. There are none if
/// some curve ends before another begins.
#[expect(clippy::cast_precision_loss, reason = "seeds are few")]
fn group_of(name: String, curves: &[Curve]) -> Group {
    let begin = curves.iter().filter_map(|curve| curve.first()).map(|(x, _)| *x).fold(0.0, f64::max);
    let end = curves.iter().filter_map(|curve| curve.last()).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let mut points = Vec::new();
    for place in (0..=PLACES).filter(|_| begin <= end) {
        let x = begin + (end - begin) * f64::from(place) / f64::from(PLACES);
        let values: Vec<f64> = curves.iter().filter_map(|curve| at(curve, x)).collect();
        if values.is_empty() {
            continue;
        }
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        points.push((x, [lowest, values.iter().sum::<f64>() / values.len() as f64, highest]));
    }
    Group { name, points, seeds: curves.len() }
}

/// Returns the latest value at a position.
fn at(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let behind = curve.partition_point(|(at, _)| *at <= x);
    Some(curve.get(behind.checked_sub(1)?)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_that_do_not_overlap_have_no_band() {
        let curves = [vec![(0.0, 1.0), (5.0, 3.0)], vec![(9.0, 3.0), (10.0, 5.0)]];
        assert!(group_of("x".to_owned(), &curves).points.is_empty());
    }

    #[test]
    fn the_band_of_seeds_ends_with_the_shortest_curve() {
        let curves = [vec![(0.0, 1.0), (10.0, 3.0), (20.0, 9.0)], vec![(0.0, 3.0), (10.0, 5.0)]];
        let Group { points, seeds, .. } = group_of("x".to_owned(), &curves);
        assert_eq!(seeds, 2);
        assert_eq!(points.first(), Some(&(0.0, [1.0, 2.0, 3.0])));
        assert_eq!(points.last(), Some(&(10.0, [3.0, 4.0, 5.0])));
        assert_eq!(points.len(), 201);
    }

    #[test]
    fn points_are_means_of_the_newest_episodes() {
        let line = |env_steps, value| Line {
            env_steps,
            learner_steps: 0.0,
            seconds: 0.0,
            episode_return: Some(value),
        };
        let lines = [line(1.0, 2.0), line(2.0, 4.0), line(3.0, 8.0)];
        assert_eq!(smoothed(&lines, Axis::Steps, 2), [(1.0, 2.0), (2.0, 3.0), (3.0, 6.0)]);
    }
}
