//! The pictures of a report.

use std::path::PathBuf;

use relive_env::bsuite::BsuiteId;

use crate::commands::rl::plot::{curves_svg, radar_svg};
use crate::commands::rl::runs::About;
use crate::commands::rl::sweep::scores::Scored;
use crate::failure::Result;

/// The number of episodes over which a point of a curve is averaged.
pub(super) const SMOOTH: usize = 50;

/// A picture, and the name of its file.
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) svg: String,
}

/// Returns the radar of the runs in bsuite environments, if any of them acted.
pub(super) fn radar(all: &[Scored<'_>]) -> Result<Option<Picture>> {
    let of_bsuite = runs(all, |scored| {
        scored.plan.about.environment.parse::<BsuiteId>().is_ok() && !scored.figures.is_from_data()
    });
    if of_bsuite.is_empty() {
        return Ok(None);
    }
    Ok(Some(Picture { name: "radar.svg".to_owned(), svg: radar_svg(&of_bsuite)? }))
}

/// Returns the curves of each environment.
pub(super) fn curves(all: &[Scored<'_>]) -> Result<Vec<Picture>> {
    let picture = |environment: String| {
        let here = |scored: &Scored<'_>| scored.plan.about.environment == environment;
        let svg = curves_svg(&runs(all, here), SMOOTH)?;
        let from_data = all.iter().any(|scored| here(scored) && scored.plan.recipe.data.is_some());
        Ok(Picture { name: curves_name(&environment, from_data), svg })
    };
    distinct(all, |about| &about.environment).into_iter().map(picture).collect()
}

/// Returns the file of an environment's curves. Agents that learn from data count different steps, so their curves are
/// in a separate file.
pub(super) fn curves_name(environment: &str, from_data: bool) -> String {
    let kind = if from_data { "from-data-" } else { "" };
    format!("curves-{kind}{}.svg", environment.replace('/', "_"))
}

fn runs(all: &[Scored<'_>], belongs: impl Fn(&Scored<'_>) -> bool) -> Vec<(PathBuf, About)> {
    let plans = all.iter().filter(|scored| belongs(scored)).map(|scored| scored.plan);
    plans.map(|plan| (plan.folder.clone(), plan.about.clone())).collect()
}

/// Returns the distinct values, in the order of their first occurrence.
pub(super) fn distinct(all: &[Scored<'_>], of: impl Fn(&About) -> &String) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for value in all.iter().map(|scored| of(&scored.plan.about)) {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found
}
