//! Learning curves with bands.

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, ChartBuilder, Color, DrawingArea, DrawingBackend, IntoFont, LineSeries, PathElement, Polygon,
    WHITE,
};

use super::canvas::{self, COLORS, Drawing, FONT};
use super::curve::{Axis, EpisodeSource, Group};

/// Learning curves of groups of runs.
pub(super) struct Curves {
    pub(super) groups: Vec<Group>,
    pub(super) axis: Axis,
    pub(super) episodes_of: EpisodeSource,
    /// The environment, if it is the same for all runs.
    pub(super) environment: Option<String>,
}

impl Curves {
    /// Returns the visible range, with some margin above and below.
    fn range(&self) -> ([f64; 2], [f64; 2]) {
        let points = || self.groups.iter().flat_map(|group| &group.points);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let x = [0.0, most(&mut points().map(|(x, _)| *x)).max(1.0)];
        let y = [
            least(&mut points().map(|(_, [low, ..])| *low)),
            most(&mut points().map(|(_, [.., high])| *high)),
        ];
        let room = ((y[1] - y[0]) * 0.05).max(0.05);
        if y[0].is_finite() { (x, [y[0] - room, y[1] + room]) } else { (x, [0.0, 1.0]) }
    }

    fn title(&self) -> String {
        let title = match self.episodes_of {
            EpisodeSource::Actor => "Return of episodes",
            EpisodeSource::Evaluator => "Return of episodes without exploration",
        };
        match &self.environment {
            Some(environment) => format!("{environment}: {}", title.to_lowercase()),
            None => title.to_owned(),
        }
    }
}

impl Drawing for Curves {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static,
    {
        let ([left, right], [bottom, top]) = self.range();
        let mut chart = ChartBuilder::on(area)
            .margin(20)
            .caption(self.title(), (FONT, 24).into_font())
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(left..right, bottom..top)?;
        let across = match self.axis {
            Axis::Steps => "steps in the environment",
            Axis::LearnerSteps => "steps of the learner",
            Axis::Seconds => "seconds",
        };
        chart
            .configure_mesh()
            .x_desc(across)
            .y_desc("return")
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.1))
            .label_style((FONT, 16).into_font())
            .x_label_formatter(&|x| format!("{x}"))
            .draw()?;
        for (group, color) in self.groups.iter().zip(COLORS.iter().cycle()) {
            let low = group.points.iter().map(|(x, [low, ..])| (*x, *low));
            let high = group.points.iter().rev().map(|(x, [.., high])| (*x, *high));
            if group.seeds > 1 {
                let band = low.chain(high).collect::<Vec<_>>();
                chart.draw_series(std::iter::once(Polygon::new(band, color.mix(0.2))))?;
            }
            let middle = group.points.iter().map(|(x, [_, mean, _])| (*x, *mean));
            let seeds = if group.seeds == 1 { "1 seed".to_owned() } else { format!("{} seeds", group.seeds) };
            chart
                .draw_series(LineSeries::new(middle, color.stroke_width(2)))?
                .label(format!("{} ({seeds})", group.name))
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color.stroke_width(2)));
        }
        canvas::legend(&mut chart)
    }
}
