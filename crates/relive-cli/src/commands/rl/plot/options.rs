//! The options.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::curve::{Axis, CurveSelection, EpisodeSource};
use super::{canvas, pictures, radar};
use crate::commands::rl::runs;
use crate::failure::Result;
use crate::output;

/// The default number of episodes over which a point is averaged.
const SMOOTH: u16 = 20;

/// Options of `relive rl plot`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folders of runs (--log-dir of `relive rl train`), or folders of such folders (--out of `relive rl sweep`)
    #[arg(value_name = "RUNS", required = true)]
    runs: Vec<PathBuf>,
    /// The picture: a .png or .svg file
    #[arg(long, value_name = "FILE", default_value = "curves.png")]
    out: PathBuf,
    /// What to draw
    #[arg(long, value_enum, default_value_t = Picture::Curves)]
    picture: Picture,
    /// The horizontal axis [default: steps, or learner-steps if runs learn from data]
    #[arg(long, value_enum)]
    x: Option<Axis>,
    /// Whose episodes to show: with or without exploration [default: actor, or evaluator if runs learn from data]
    #[arg(long, value_enum)]
    of: Option<EpisodeSource>,
    /// Number of episodes that each point averages
    #[arg(long, value_name = "N", default_value_t = SMOOTH, value_parser = clap::value_parser!(u16).range(1..))]
    smooth: u16,
}

/// A kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// Learning curves: the mean over seeds, with a band from the lowest to the highest
    Curves,
    /// bsuite's radar: scores by capability
    Radar,
}

/// Draws a picture, and prints its path.
pub(crate) fn run(options: &Options) -> Result {
    match options.picture {
        Picture::Curves => {
            let smooth = usize::from(options.smooth);
            let selection = CurveSelection { episodes_of: options.of, axis: options.x, smooth };
            canvas::draw(&options.out, &pictures::curves(&runs::find(&options.runs)?, selection)?)?;
        }
        Picture::Radar => canvas::draw(&options.out, &radar::Radar::of(&runs::find(&options.runs)?)?)?,
    }
    output::line(&format!("{}", options.out.display()))?;
    Ok(())
}

/// Draws the learning curves of runs.
pub(crate) fn curves(folders: &[PathBuf], out: &Path) -> Result {
    canvas::draw(
        out,
        &pictures::curves(&runs::find(folders)?, CurveSelection::smoothed(usize::from(SMOOTH)))?,
    )
}
