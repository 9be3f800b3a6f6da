//! Pictures of runs, in files or as SVG text for reports.

use std::path::PathBuf;

use super::canvas;
use super::curve::{self, CurveSelection};
use super::curves::Curves;
use super::radar::Radar;
use crate::commands::rl::runs::About;
use crate::failure::Result;

/// Returns the learning curves of runs.
pub(super) fn curves(runs: &[(PathBuf, About)], selection: CurveSelection) -> Result<Curves> {
    let first = runs.first().map(|(_, about)| &about.environment);
    let only = first.filter(|first| runs.iter().all(|(_, about)| about.environment == **first));
    let (groups, episodes_of, axis) = curve::groups(runs, selection)?;
    Ok(Curves { groups, axis, episodes_of, environment: only.cloned() })
}

/// Returns the learning curves of runs as SVG; each point is the mean of `smooth` episodes.
pub(crate) fn curves_svg(runs: &[(PathBuf, About)], smooth: usize) -> Result<String> {
    canvas::text(&curves(runs, CurveSelection::smoothed(smooth))?)
}

/// Returns bsuite's radar of runs as SVG.
pub(crate) fn radar_svg(runs: &[(PathBuf, About)]) -> Result<String> {
    canvas::text(&Radar::of(runs)?)
}
