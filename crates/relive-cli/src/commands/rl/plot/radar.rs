//! bsuite's radar: a corner for each of its tags.

use std::f64::consts::TAU;
use std::path::PathBuf;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, ChartBuilder, Color, DrawingArea, DrawingBackend, IntoFont, PathElement, Polygon, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use relive_env::bsuite::{self, BsuiteId, Run, Tag};

use super::canvas::{self, COLORS, Drawing, FONT};
use crate::commands::rl::runs::About;
use crate::failure::{Failure, Kind, Result};

type Scores = Vec<(Tag, f64)>;

/// Scores of agents by tag.
pub(super) struct Radar {
    agents: Vec<(String, Scores)>,
}

impl Radar {
    /// Reads bsuite's logs in the folders of runs. Scores are means over seeds; each seed's runs are scored together,
    /// by bsuite's rules.
    pub(super) fn of(runs: &[(PathBuf, About)]) -> Result<Radar> {
        let mut logs: Vec<((String, u64), Vec<Run>)> = Vec::new();
        for (folder, about) in runs {
            let Ok(id) = about.environment.parse::<BsuiteId>() else { continue };
            let path = folder.join(id.csv_file_name());
            let text = std::fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
            let rows = bsuite::read_csv(&text).map_err(|error| Failure::at(&path, error))?;
            let whose = (about.agent.clone(), about.seed);
            match logs.iter_mut().find(|(other, _)| *other == whose) {
                Some((_, runs)) => runs.push(Run { id, rows }),
                None => logs.push((whose, vec![Run { id, rows }])),
            }
        }
        if logs.is_empty() {
            return Err(Failure::usage(
                "there are no runs in environments of bsuite; `relive rl sweep` creates them",
            ));
        }
        let mut agents: Vec<(String, Scores)> = Vec::new();
        for ((agent, _), runs) in logs {
            let summary = bsuite::summarize(&runs).map_err(|error| Failure::text(Kind::Runtime, error))?;
            match agents.iter_mut().find(|(other, _)| *other == agent) {
                Some((_, scores)) => scores.extend(summary.tags),
                None => agents.push((agent, summary.tags)),
            }
        }
        let means = agents.into_iter().map(|(agent, scores)| (agent, means(&scores)));
        Ok(Radar { agents: means.collect() })
    }
}

/// Returns the mean score of each tag that has scores.
#[expect(clippy::cast_precision_loss, reason = "seeds are few")]
fn means(scores: &[(Tag, f64)]) -> Vec<(Tag, f64)> {
    let mean = |tag: Tag| {
        let of_tag: Vec<f64> = scores.iter().filter(|(of, _)| *of == tag).map(|(_, score)| *score).collect();
        (!of_tag.is_empty()).then(|| (tag, of_tag.iter().sum::<f64>() / of_tag.len() as f64))
    };
    Tag::ALL.into_iter().filter_map(mean).collect()
}

/// Returns the position of a score on a tag's axis.
#[expect(clippy::cast_precision_loss, reason = "tags are few")]
fn place(index: usize, score: f64) -> (f64, f64) {
    let angle = TAU * (0.25 - index as f64 / Tag::ALL.len() as f64);
    (score * angle.cos(), score * angle.sin())
}

impl Drawing for Radar {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(20)
            .caption("bsuite: scores by capability", (FONT, 24).into_font())
            .build_cartesian_2d(-2.1..2.1, -1.25..1.25)?;
        let corners = Tag::ALL.len();
        for share in [0.25, 0.5, 0.75, 1.0] {
            let ring: Vec<_> = (0..=corners).map(|index| place(index, share)).collect();
            chart.draw_series(std::iter::once(PathElement::new(ring, BLACK.mix(0.15))))?;
        }
        for (index, tag) in Tag::ALL.into_iter().enumerate() {
            let ray = vec![(0.0, 0.0), place(index, 1.0)];
            chart.draw_series(std::iter::once(PathElement::new(ray, BLACK.mix(0.15))))?;
            let (x, y) = place(index, 1.08);
            let side = if x > 0.1 {
                HPos::Left
            } else if x < -0.1 {
                HPos::Right
            } else {
                HPos::Center
            };
            let style = (FONT, 16).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
            let has_scores =
                |(_, scores): &(String, Vec<(Tag, f64)>)| scores.iter().any(|(of, _)| *of == tag);
            let name = match self.agents.iter().all(has_scores) {
                true => tag.name().to_owned(),
                false => format!("{} (not run)", tag.name()),
            };
            chart.draw_series(std::iter::once(Text::new(name, (x, y), style)))?;
        }
        for ((agent, scores), color) in self.agents.iter().zip(COLORS.iter().cycle()) {
            let score = |tag| scores.iter().find(|(of, _)| *of == tag).map_or(0.0, |(_, score)| *score);
            let mut outline: Vec<_> =
                Tag::ALL.into_iter().enumerate().map(|(index, tag)| place(index, score(tag))).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline.clone(), color.mix(0.2))))?;
            outline.extend(outline.first().copied());
            chart
                .draw_series(std::iter::once(PathElement::new(outline, color.stroke_width(2))))?
                .label(agent.clone())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color.stroke_width(2)));
        }
        canvas::legend(&mut chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_means_over_seeds() {
        let scores = [(Tag::Noise, 0.5), (Tag::Basic, 0.25), (Tag::Basic, 0.75)];
        assert_eq!(means(&scores), [(Tag::Basic, 0.5), (Tag::Noise, 0.5)]);
    }
}
