//! Writes the report on a sweep.

use std::path::Path;

use super::pictures::{curves, radar};
use super::{agent_pages, page, table};
use crate::commands::rl::sweep::plans::Plan;
use crate::commands::rl::sweep::scores;
use crate::failure::{Failure, Result};

/// The folder of the report.
const FOLDER: &str = "report";
/// Writes the report on the finished runs, and returns a message about it.
pub(crate) fn write(out: &Path, plans: &[Plan]) -> Result<String> {
    let all = scores::of(plans)?;
    let (finished, runs) = (all.len(), plans.len());
    if all.is_empty() {
        return Ok(format!("no report: none of the {runs} runs is finished and has a complete episode"));
    }
    let folder = out.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| Failure::at(&folder, error))?;
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
        std::fs::write(&path, text).map_err(|error| Failure::at(&path, error))?;
    }
    let of = if finished == runs {
        String::new()
    } else {
        format!(" of {finished} of {runs} runs; the others have no complete episode, or are not finished")
    };
    Ok(format!("report: {}{of}", page.display()))
}
