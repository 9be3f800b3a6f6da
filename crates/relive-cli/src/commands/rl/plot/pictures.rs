//! Pictures of runs, also as text for reports.

use std::path::PathBuf;

use super::canvas;
use super::curve::{self, Axis, Who};
use super::curves::Curves;
use super::radar::Radar;
use crate::commands::rl::runs::About;
use crate::failure::Result;

/// The learning curves of runs, each point the mean of so many episodes.
pub(super) fn curves(runs: &[(PathBuf, About)], (who, axis): (Who, Axis), smooth: usize) -> Result<Curves> {
    let first = runs.first().map(|(_, about)| &about.environment);
    let only = first.filter(|first| runs.iter().all(|(_, about)| about.environment == **first));
    Ok(Curves { groups: curve::groups(runs, who, axis, smooth)?, axis, who, environment: only.cloned() })
}

/// The learning curves of runs as SVG.
pub(crate) fn curves_svg(runs: &[(PathBuf, About)], smooth: usize) -> Result<String> {
    canvas::text(&curves(runs, (Who::Actor, Axis::Steps), smooth)?)
}

/// bsuite's radar of runs as SVG.
pub(crate) fn radar_svg(runs: &[(PathBuf, About)]) -> Result<String> {
    canvas::text(&Radar::of(runs)?)
}
