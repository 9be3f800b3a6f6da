//! From what runs have told to curves.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;

use crate::commands::rl::runs::About;
use crate::failure::{Failure, Kind, Result};

/// Places at which the curves of seeds are compared.
const PLACES: u32 = 200;

/// What learning is shown against.
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
pub(super) enum Who {
    /// Those that are learned from
    Actor,
    /// Those that show what was learned
    Evaluator,
}

/// Runs that differ in their seeds only.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    /// Where, and there the lowest, the mean and the highest of all seeds.
    pub(super) points: Vec<(f64, [f64; 3])>,
    pub(super) seeds: usize,
}

/// Where, and how much there.
type Curve = Vec<(f64, f64)>;

/// A line of a log.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Line {
    env_steps: f64,
    learner_steps: f64,
    seconds: f64,
    episode_return: Option<f64>,
}

/// The curves of runs, those of one kind together.
pub(super) fn groups(runs: &[(PathBuf, About)], who: Who, axis: Axis, smooth: usize) -> Result<Vec<Group>> {
    let differ = |part: fn(&About) -> String| {
        let first = runs.first().map(|(_, about)| part(about));
        runs.iter().any(|(_, about)| Some(part(about)) != first)
    };
    let (agents, actors) = (differ(|about| about.agent.clone()), differ(|about| about.actors.to_string()));
    let environments = differ(|about| about.environment.clone());
    let mut kinds: Vec<(String, Vec<Curve>)> = Vec::new();
    for (folder, about) in runs {
        let mut name = match (agents, environments) {
            (true, true) => format!("{} in {}", about.agent, about.environment),
            (true, false) => about.agent.clone(),
            (false, _) => about.environment.clone(),
        };
        if actors {
            name += &match about.actors {
                0 => ", one thread".to_owned(),
                1 => ", 1 actor".to_owned(),
                actors => format!(", {actors} actors"),
            };
        }
        let curve = smoothed(&read(folder, who)?, axis, smooth);
        match kinds.iter_mut().find(|(other, _)| *other == name) {
            Some((_, curves)) => curves.push(curve),
            None => kinds.push((name, vec![curve])),
        }
    }
    Ok(kinds.into_iter().map(|(name, curves)| together(name, &curves)).collect())
}

fn read(folder: &Path, who: Who) -> Result<Vec<Line>> {
    let path = folder.join(match who {
        Who::Actor => "actor.jsonl",
        Who::Evaluator => "evaluator.jsonl",
    });
    let unread =
        |error: &dyn std::fmt::Display| Failure::text(Kind::Runtime, format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| match (error.kind(), who) {
        (ErrorKind::NotFound, Who::Actor) => {
            unread(&"there are no such logs of this run; --logs jsonl writes them")
        }
        (ErrorKind::NotFound, Who::Evaluator) => {
            unread(&"there are no evaluations of this run; --evaluate-every makes some, which --logs jsonl writes down")
        }
        _ => unread(&error),
    })?;
    let mut lines: Vec<Line> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // The last line of a run that was killed may be a part of one.
        let line: Line = match serde_json::from_str(line) {
            Err(_) if number + 1 == text.lines().count() => break,
            line => line.map_err(|error| unread(&format_args!("line {}: {error}", number + 1)))?,
        };
        // A run that was resumed tells again what came after its last checkpoint.
        while lines.last().is_some_and(|last| last.env_steps > line.env_steps) {
            lines.pop();
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Means over the newest episodes.
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

/// The lowest, the mean and the highest, as far as all curves go.
#[expect(clippy::cast_precision_loss, reason = "seeds are few")]
fn together(name: String, curves: &[Curve]) -> Group {
    let begin = curves.iter().filter_map(|curve| curve.first()).map(|(x, _)| *x).fold(0.0, f64::max);
    let end = curves.iter().filter_map(|curve| curve.last()).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let mut points = Vec::new();
    for place in 0..=PLACES {
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

/// The newest value at a place.
fn at(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let behind = curve.partition_point(|(at, _)| *at <= x);
    Some(curve.get(behind.checked_sub(1)?)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_make_a_band_as_far_as_all_of_them_go() {
        let curves = [vec![(0.0, 1.0), (10.0, 3.0), (20.0, 9.0)], vec![(0.0, 3.0), (10.0, 5.0)]];
        let Group { points, seeds, .. } = together("x".to_owned(), &curves);
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
