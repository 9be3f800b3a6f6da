//! Writing the report of a sweep.

use std::path::{Path, PathBuf};

use relive_env::bsuite::BsuiteId;

use super::{agent_pages, page, table};
use crate::commands::rl::plot::{curves_svg, radar_svg};
use crate::commands::rl::runs::About;
use crate::commands::rl::sweep::plans::Plan;
use crate::commands::rl::sweep::scores::{self, Scored};
use crate::failure::{Failure, Kind, Result};

/// The folder of the report.
const FOLDER: &str = "report";
/// Episodes that a point of a curve is the mean of.
pub(super) const SMOOTH: usize = 50;

/// A picture, and the name of its file.
pub(super) struct Picture {
    name: String,
    pub(super) svg: String,
}

/// Writes the report of the runs that are finished; what there is to say of it.
pub(crate) fn write(out: &Path, plans: &[Plan]) -> Result<String> {
    let all = scores::of(plans)?;
    let (told, runs) = (all.len(), plans.len());
    if all.is_empty() {
        return Ok(format!("no report: none of {runs} runs is finished with an episode at its end"));
    }
    let folder = out.join(FOLDER);
    let failed = |path: &Path, error: std::io::Error| {
        Failure::text(Kind::Runtime, format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    let (radar, curves) = (radar(&all)?, curves(&all)?);
    let page = folder.join("report.html");
    let mut files = vec![
        (page.clone(), page::html(&all, radar.as_ref(), &curves)),
        (folder.join("scores.csv"), table::csv(&all)),
    ];
    files.extend(agent_pages::pages(&all)?.into_iter().map(|(name, text)| (folder.join(name), text)));
    let pictures = radar.into_iter().chain(curves);
    files.extend(pictures.map(|picture| (folder.join(picture.name), picture.svg)));
    for (path, text) in files {
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    let of = if told == runs {
        String::new()
    } else {
        format!(" of {told} of {runs} runs; the others have no episode to tell of, or are not finished")
    };
    Ok(format!("report: {}{of}", page.display()))
}

/// The radar of those in environments of bsuite, if there are any that acted.
fn radar(all: &[Scored<'_>]) -> Result<Option<Picture>> {
    let of_bsuite = runs(all, |scored| {
        scored.plan.about.environment.parse::<BsuiteId>().is_ok() && !scored.figures.is_from_data()
    });
    if of_bsuite.is_empty() {
        return Ok(None);
    }
    Ok(Some(Picture { name: "radar.svg".to_owned(), svg: radar_svg(&of_bsuite)? }))
}

/// The curves of each environment.
fn curves(all: &[Scored<'_>]) -> Result<Vec<Picture>> {
    let picture = |environment: String| {
        let here = |scored: &Scored<'_>| scored.plan.about.environment == environment;
        let svg = curves_svg(&runs(all, here), SMOOTH)?;
        let from_data = all.iter().any(|scored| here(scored) && scored.plan.recipe.data.is_some());
        Ok(Picture { name: curves_name(&environment, from_data), svg })
    };
    distinct(all, |about| &about.environment).into_iter().map(picture).collect()
}

/// The file of an environment's curves: those of agents that learn from data have other steps, and a name of their own beside those of agents that act.
pub(super) fn curves_name(environment: &str, from_data: bool) -> String {
    let kind = if from_data { "from-data-" } else { "" };
    format!("curves-{kind}{}.svg", environment.replace('/', "_"))
}

fn runs(all: &[Scored<'_>], belongs: impl Fn(&Scored<'_>) -> bool) -> Vec<(PathBuf, About)> {
    let plans = all.iter().filter(|scored| belongs(scored)).map(|scored| scored.plan);
    plans.map(|plan| (plan.folder.clone(), plan.about.clone())).collect()
}

/// What there is of something, in the order in which it first comes.
pub(super) fn distinct(all: &[Scored<'_>], of: impl Fn(&About) -> &String) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for value in all.iter().map(|scored| of(&scored.plan.about)) {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found
}
