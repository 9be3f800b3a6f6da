//! Draws pictures into files.

use std::io::BufWriter;
use std::path::Path;

use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::{
    BLACK, BitMapBackend, ChartContext, Color, DrawingArea, DrawingBackend, IntoDrawingArea, IntoFont,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::style::{FontStyle, RGBColor, register_font};

use crate::failure::{Failure, Kind, Result};

/// The size of a picture in pixels.
const SIZE: (u32, u32) = (960, 600);

/// Colors that people with any kind of color vision can distinguish (Okabe and Ito 2008).
pub(super) const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// The font of all text.
pub(super) const FONT: &str = "sans-serif";

/// A picture that can be drawn.
pub(super) trait Drawing {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static;
}

/// The kinds of pictures.
#[derive(Debug, Clone, Copy)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Format> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            _ => Err(Failure::usage(format!("{}: a picture must be a .png or .svg file", path.display()))),
        }
    }
}

/// Checks the name of a picture in advance, since it is drawn at the end of a run, which may be long.
pub(crate) fn expect_picture(path: &Path) -> Result {
    Format::of(path).map(drop)
}

/// Draws into a file, in the format that the file's name indicates.
pub(super) fn draw(path: &Path, drawing: &impl Drawing) -> Result {
    let format = Format::of(path)?;
    register()?;
    let bytes = match format {
        Format::Svg => svg(drawing),
        Format::Png => png(drawing),
    };
    std::fs::write(path, bytes.map_err(|error| Failure::at(path, error))?)
        .map_err(|error| Failure::at(path, error))
}

/// Returns the SVG text of a drawing.
pub(super) fn text(drawing: &impl Drawing) -> Result<String> {
    register()?;
    let bytes = svg(drawing).map_err(|error| Failure::text(Kind::Runtime, error))?;
    String::from_utf8(bytes).map_err(|error| Failure::text(Kind::Runtime, error))
}

/// Registers the program's own font, so that pictures are the same on every machine.
fn register() -> Result {
    register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
        .map_err(|_| Failure::text(Kind::Runtime, "the built-in font is damaged"))
}

/// Draws the legend.
pub(super) fn legend<'a, B: DrawingBackend + 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, B, C>,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font((FONT, 16).into_font())
        .draw()?;
    Ok(())
}

type Drawn = std::result::Result<Vec<u8>, Box<dyn std::error::Error>>;

fn svg(drawing: &impl Drawing) -> Drawn {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        drawing.draw(&area)?;
        area.present()?;
    }
    Ok(text.into_bytes())
}

fn png(drawing: &impl Drawing) -> Drawn {
    let (width, height) = SIZE;
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        drawing.draw(&area)?;
        area.present()?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(BufWriter::new(&mut bytes), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}
